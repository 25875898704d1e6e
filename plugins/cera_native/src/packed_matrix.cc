#include "packed_matrix.h"

#include <string.h>

#include "error.h"
#include "half.h"

namespace cera {
namespace {

// Rows and columns of any real model are far below; products of two stay far below 2^63.
constexpr int64_t kMostElements = int64_t{1} << 28;

// What a format can do, with the format itself forgotten.
struct FormatFunctions {
  bool takes_floats;
  int file_block, file_bytes;
  size_t (*tile_bytes)(int num_columns);
  void (*pack_tile)(const uint8_t* rows, size_t row_bytes, int num_rows, int num_columns, uint8_t* tile);
  void (*read_row)(const uint8_t* tile, int row, int num_columns, float* weights);
};

// The bytes need not exist.
inline void Prefetch(const uint8_t* bytes, size_t num_bytes) {
  for (size_t i = 0; i < num_bytes; i += 64) __builtin_prefetch(bytes + i);
}

template <class Format>
struct CodeFormat {
  using Codes = typename Format::Codes;
  using Scales = typename Format::Scales;

  using Layout = TileLayout<Codes, Scales>;

  static size_t TileBytes(int num_columns) { return Layout::NumBytes(num_columns / kBlock); }

  // Block by block, so that what is written lies in the cache until all rows have been there. Sixteen short rows are
  // more streams than the processor fetches ahead by itself, so the rows of the next tile are asked for meanwhile.
  static void PackTile(const uint8_t* rows, size_t row_bytes, int num_rows, int num_columns, uint8_t* tile) {
    constexpr size_t kBytesPerBlock = kTileRows * Format::kFileBytes * kBlock / Format::kFileBlock;
    const int num_blocks = num_columns / kBlock;
    for (int i = 0; i < num_blocks; ++i) {
      Prefetch(rows + kTileRows * row_bytes + i * kBytesPerBlock, kBytesPerBlock);
      uint8_t* codes = tile + Layout::BlockCodes(i);
      uint8_t *header = tile + Layout::Header(i), *scales = tile + Layout::RunScales(i);
      for (int row = 0; row < num_rows; ++row) {
        Block block;
        Format::Read(rows + row * row_bytes, i, &block);
        Codes::Put(block.codes, row, codes);
        Scales::Put(block, row, Layout::Place(i), header, scales);
      }
    }
  }

  static void ReadRow(const uint8_t* tile, int row, int num_columns, float* weights) {
    constexpr int kZeroPoint = Format::kZeroShift == kNoZeroPoint ? 0 : 1 << (Format::kZeroShift & 31);
    const int num_blocks = num_columns / kBlock;
    for (int i = 0; i < num_blocks; ++i) {
      Block block;
      Scales::Get(tile + Layout::Header(i), tile + Layout::RunScales(i), row, Layout::Place(i), &block);
      const float minimum = FloatFromHalf(block.minimum) * static_cast<float>(block.fine_minimum);
      for (int k = 0; k < kBlock; ++k) {
        const float scale = FloatFromHalf(block.scale) * static_cast<float>(block.fine_scales[k / 16]);
        const int code = Codes::Get(tile + Layout::BlockCodes(i), row, k) - kZeroPoint;
        weights[i * kBlock + k] = scale * static_cast<float>(code) + minimum;
      }
    }
  }

  static constexpr FormatFunctions kFunctions = {false,     Format::kFileBlock, Format::kFileBytes,
                                                 TileBytes, PackTile,           ReadRow};
};

template <class Format>
struct FloatFormat {
  using Stored = typename Format::Stored;

  static size_t TileBytes(int num_columns) { return static_cast<size_t>(num_columns) * kTileRows * sizeof(Stored); }

  static void PackTile(const uint8_t* rows, size_t row_bytes, int num_rows, int num_columns, uint8_t* tile) {
    for (int row = 0; row < num_rows; ++row) {
      for (int k = 0; k < num_columns; ++k) {
        const size_t from = row * row_bytes + k * sizeof(Stored);
        memcpy(tile + (static_cast<size_t>(k) * kTileRows + row) * sizeof(Stored), rows + from, sizeof(Stored));
      }
    }
  }

  static void ReadRow(const uint8_t* tile, int row, int num_columns, float* weights) {
    const Stored* stored = reinterpret_cast<const Stored*>(tile);
    for (int k = 0; k < num_columns; ++k)
      weights[k] = Format::ToFloat(stored[static_cast<size_t>(k) * kTileRows + row]);
  }

  static constexpr FormatFunctions kFunctions = {true, 1, Format::kFileBytes, TileBytes, PackTile, ReadRow};
};

// Returns null for a type there is no format for.
const FormatFunctions* FindFormat(int type) {
  switch (type) {
#define CERA_CASE(Format, number) \
  case number:                    \
    return &FloatFormat<Format>::kFunctions;
    CERA_FLOAT_FORMATS(CERA_CASE)
#undef CERA_CASE
#define CERA_CASE(Format, number) \
  case number:                    \
    return &CodeFormat<Format>::kFunctions;
    CERA_CODE_FORMATS(CERA_CASE)
#undef CERA_CASE
    default:
      return nullptr;
  }
}

// Returns the bytes of a row after checking that type, sizes and bytes of a tensor fit together.
size_t CheckedRowBytes(const RawTensor& tensor, const FormatFunctions* format) {
  const std::string subject = "Tensor '" + tensor.name + "': ";
  if (format == nullptr) {
    throw Error("UnsupportedModelError",
                subject + "the native backend has no kernel for its type, number " + std::to_string(tensor.type) +
                    " of GGUF. Use another quantisation of the model, or the backend 'numpy'.");
  }
  const auto is_sane = [](int64_t n) { return n > 0 && n <= kMostElements; };
  if (!is_sane(tensor.num_rows) || !is_sane(tensor.num_columns) || tensor.num_columns % format->file_block != 0) {
    throw Error("ModelFileError", subject + "rows of a positive multiple of " + std::to_string(format->file_block) +
                                      " weights are required, found the shape " + std::to_string(tensor.num_rows) +
                                      " x " + std::to_string(tensor.num_columns) + ". Fetch the file again.");
  }
  const int64_t row_bytes = tensor.num_columns / format->file_block * format->file_bytes;
  const int64_t num_bytes = row_bytes * tensor.num_rows;
  if (tensor.bytes == nullptr || static_cast<int64_t>(tensor.num_bytes) != num_bytes) {
    throw Error("ModelFileError", subject + std::to_string(num_bytes) + " bytes are required, found " +
                                      std::to_string(tensor.num_bytes) + ". Fetch the file again.");
  }
  return static_cast<size_t>(row_bytes);
}

}  // namespace

PackedMatrix::PackedMatrix(const RawTensor& tensor, Arena& arena, ThreadPool& pool) : type_(tensor.type) {
  const FormatFunctions* format = FindFormat(tensor.type);
  const size_t row_bytes = CheckedRowBytes(tensor, format);
  num_rows_ = static_cast<int>(tensor.num_rows);
  num_columns_ = static_cast<int>(tensor.num_columns);
  takes_floats_ = format->takes_floats;
  tile_bytes_ = (format->tile_bytes(num_columns_) + 63) / 64 * 64;
  tiles_ = arena.Allocate(static_cast<size_t>(num_tiles()) * tile_bytes_);
  pool.Run([&](int thread) {
    const Range share = ShareOf(num_tiles(), thread, pool.num_threads());
    for (int tile = share.first; tile < share.last; ++tile) {
      const int first_row = tile * kTileRows, rows_left = num_rows_ - first_row;
      format->pack_tile(tensor.bytes + first_row * row_bytes, row_bytes, rows_left < kTileRows ? rows_left : kTileRows,
                        num_columns_, tiles_ + tile * tile_bytes_);
    }
  });
}

void PackedMatrix::ReadRow(int row, float* weights) const {
  FindFormat(type_)->read_row(tiles_ + row / kTileRows * tile_bytes_, row % kTileRows, num_columns_, weights);
}

std::vector<float> ReadVector(const RawTensor& tensor) {
  const FormatFunctions* format = FindFormat(tensor.type);
  CheckedRowBytes(tensor, format);
  if (!format->takes_floats || tensor.num_rows != 1) {
    throw Error("UnsupportedModelError",
                "Tensor '" + tensor.name + "': a vector of a floating-point type is required, found type number " +
                    std::to_string(tensor.type) + " of GGUF with " + std::to_string(tensor.num_rows) + " rows.");
  }
  const int n = static_cast<int>(tensor.num_columns);
  std::vector<uint8_t> tile(format->tile_bytes(n));
  format->pack_tile(tensor.bytes, tensor.num_bytes, 1, n, tile.data());
  std::vector<float> values(static_cast<size_t>(n));
  format->read_row(tile.data(), 0, n, values.data());
  return values;
}

}  // namespace cera
