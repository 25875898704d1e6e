// A matrix of weights, taken out of its file format into tiles of sixteen interleaved rows.
#ifndef CERA_NATIVE_PACKED_MATRIX_H_
#define CERA_NATIVE_PACKED_MATRIX_H_

#include <stddef.h>
#include <stdint.h>

#include <string>
#include <vector>

#include "arena.h"
#include "kernels.h"
#include "thread_pool.h"

namespace cera {

// A tensor as it lies in the file; nothing of it has been believed yet.
struct RawTensor {
  std::string name;
  int type;  // GGUF's number
  int64_t num_rows;
  int64_t num_columns;
  const uint8_t* bytes;
  size_t num_bytes;
};

class PackedMatrix {
 public:
  PackedMatrix() = default;

  // Checks and packs a tensor; the bytes are not needed afterwards.
  // Throws Error for an unknown type, or sizes that do not fit together; std::bad_alloc.
  PackedMatrix(const RawTensor& tensor, Arena& arena, ThreadPool& pool);

  bool empty() const { return tiles_ == nullptr; }
  int type() const { return type_; }
  int num_rows() const { return num_rows_; }
  int num_columns() const { return num_columns_; }
  int num_tiles() const { return (num_rows_ + kTileRows - 1) / kTileRows; }
  size_t tile_bytes() const { return tile_bytes_; }
  const uint8_t* tiles() const { return tiles_; }
  bool takes_floats() const { return takes_floats_; }

  // Writes the weights of one row; 0 <= row < num_rows.
  void ReadRow(int row, float* weights) const;

 private:
  int type_ = 0;
  int num_rows_ = 0;
  int num_columns_ = 0;
  bool takes_floats_ = false;
  size_t tile_bytes_ = 0;
  uint8_t* tiles_ = nullptr;
};

// Reads a vector of a floating-point type. Throws Error as above.
std::vector<float> ReadVector(const RawTensor& tensor);

}  // namespace cera

#endif  // CERA_NATIVE_PACKED_MATRIX_H_
