// Fuzz target for loading: a tiny model, described by the input, with some of its numbers, shapes, types and bytes
// wrong. It is refused with Error or runs a few tokens; anything else, and whatever a sanitizer finds, is a fault.
#include <stddef.h>
#include <stdint.h>

#include <algorithm>
#include <memory>
#include <new>

#include "dispatch.h"
#include "error.h"
#include "tiny_model.h"

namespace cera {
namespace {

// Takes numbers from the input; zeros when it is used up, so that short inputs describe nearly sound models.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  uint8_t Byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  int64_t Number() {
    uint64_t number = 0;
    for (int i = 0; i < 8; ++i) number = number << 8 | Byte();
    return static_cast<int64_t>(number);
  }
  // One time in sixteen a number that is hostile, else the one given.
  int64_t Distorted(int64_t number) {
    constexpr int64_t kHostile[] = {0,
                                    -1,
                                    1,
                                    2,
                                    33,
                                    int64_t{1} << 16,
                                    int64_t{1} << 24,
                                    int64_t{1} << 28,
                                    INT32_MAX,
                                    INT32_MIN,
                                    int64_t{1} << 40,
                                    INT64_MAX,
                                    INT64_MIN};
    const uint8_t choice = Byte();
    if (choice < 240) return number;
    if (choice == 255) return Number();
    if (choice >= 253) return number + static_cast<int8_t>(Byte());
    return kHostile[choice - 240];
  }
  int Size(int number) { return static_cast<int>(Distorted(number)); }

 private:
  const uint8_t* data_;
  size_t size_;
};

TinyShape ShapeFrom(Input* input) {
  constexpr int kWidths[] = {32, 64, 256, 50};
  constexpr int kHeadDims[] = {16, 32, 10, 80};
  const uint8_t choices = input->Byte(), flags = input->Byte();
  TinyShape shape = {kWidths[choices & 3],
                     kHeadDims[choices >> 2 & 3],
                     4,
                     1 << (choices >> 4 & 1),
                     kWidths[choices >> 5 & 3],
                     40,
                     1 + (choices >> 7),
                     (flags & 1) != 0,
                     (flags & 2) != 0,
                     (flags & 4) != 0,
                     (flags & 8) != 0};
  if (flags & 16) shape.window = 7;
  if (flags & 32) shape.num_taps = 3;
  if (flags & 64) shape.num_experts = 4;
  return shape;
}

void SetTensor(Input* input, const TensorSpec& tensor, const FileFormat& model_format, Model* model) {
  const uint8_t choice = input->Byte();
  if (choice == 255) return;  // a tensor that is missing
  const FileFormat& format = choice >= 240      ? FileFormats()[choice % FileFormats().size()]
                             : tensor.is_vector ? FileFormats()[0]
                                                : model_format;
  const int num_columns = tensor.num_columns / format.block * format.block;  // so that there are bytes at all
  std::vector<uint8_t> bytes = RandomWeights(format, tensor.num_rows, num_columns, choice);
  if (choice >= 200 && choice < 240) {
    for (int i = 0; i < 8 && !bytes.empty(); ++i)
      bytes[static_cast<size_t>(input->Byte()) % bytes.size()] = input->Byte();
  }
  const int64_t num_bytes = input->Distorted(static_cast<int64_t>(bytes.size()));
  bytes.resize(static_cast<size_t>(std::clamp<int64_t>(num_bytes, 0, 1 << 20)));
  bytes.shrink_to_fit();  // so that reading past the end is found
  const RawTensor raw = {tensor.role,
                         input->Size(format.type),
                         input->Distorted(tensor.num_rows),
                         input->Distorted(tensor.num_columns),
                         bytes.data(),
                         bytes.size()};
  model->SetTensor(input->Size(tensor.layer), tensor.role, raw);
}

std::unique_ptr<Model> LoadModel(Input* input) {
  const TinyShape shape = ShapeFrom(input);
  const auto tables = AvailableKernels();
  const Kernels& kernels = *tables[input->Byte() % tables.size()];
  const FileFormat& format = FileFormats()[input->Byte() % FileFormats().size()];
  const ModelShape sizes = {input->Size(shape.hidden), input->Size(shape.head_dim), input->Size(shape.vocab), 1e-5f};
  auto model = std::make_unique<Model>(sizes, kernels, 1 + input->Byte() % 2, input->Byte() % 2 == 0);
  for (int i = 0; i < shape.num_layers; ++i) {
    const bool convolves = shape.has_convolution(i);
    Rotary rotary = convolves ? Rotary() : RotaryOf(shape);
    rotary.frequencies.resize(static_cast<size_t>(
        std::clamp<int64_t>(input->Distorted(static_cast<int64_t>(rotary.frequencies.size())), 0, 1 << 17)));
    if (!rotary.frequencies.empty() && input->Byte() >= 250) {
      const int64_t bits = input->Number();
      memcpy(rotary.frequencies.data(), &bits, sizeof(bits));
    }
    model->AddLayer(input->Size(shape.num_heads), input->Size(convolves ? 0 : shape.num_kv_heads),
                    input->Size(shape.feed_forward), std::move(rotary), input->Size(shape.window));
    if (shape.num_experts > 0) model->AddExperts(input->Size(shape.num_experts), input->Size(2), i % 2 == 0);
  }
  for (const TensorSpec& tensor : TensorsOf(shape)) SetTensor(input, tensor, format, model.get());
  model->Finish();
  return model;
}

void RunModel(Input* input, Model* model) {
  const size_t vocab = static_cast<size_t>(model->shape().vocab_size);
  auto state = model->NewState(input->Size(24));
  for (int step = 0; step < 3; ++step) {
    const int num_ids = 1 + input->Byte() % 9;
    std::vector<int32_t> ids(static_cast<size_t>(num_ids));
    for (int32_t& id : ids) id = input->Size(static_cast<int>(input->Byte() % vocab));
    std::vector<float> logits(static_cast<size_t>(num_ids) * vocab);
    model->Forward(*state, ids.data(), num_ids, true, logits.data());
    state = model->CopyState(*state);
    model->Truncate(*state, input->Size(state->length / 2));
  }
}

}  // namespace
}  // namespace cera

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cera::Input input(data, size);
  try {
    const auto model = cera::LoadModel(&input);
    cera::RunModel(&input, model.get());
  } catch (const cera::Error&) {
  } catch (const std::bad_alloc&) {
  }
  return 0;
}
