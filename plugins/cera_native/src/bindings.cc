// What Python sees: arguments are checked and passed on, nothing is computed here.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "core_round_trip.h"
#include "dispatch.h"
#include "error.h"
#include "gil_free.h"
#include "model.h"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace cera {
namespace {

// An argument of these types is bound with `noconvert`: a copy of another type or order would be read or written
// instead.
using ByteRows = nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Ids = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

constexpr int kMostThreads = 1024;

void RaiseAs(const char* python_class, const char* message) {
  const nb::object error = nb::module_::import_("cera_core.errors").attr(python_class);
  PyErr_SetString(error.ptr(), message);
}

void TranslateErrors(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    RaiseAs(error.python_class(), error.what());
  } catch (const std::bad_alloc&) {
    RaiseAs("ModelError",
            "The native backend needs more memory than the system gives. Use a smaller model or quantisation, or a "
            "state for fewer tokens.");
  } catch (const std::system_error& error) {
    RaiseAs("ModelError", ("The native backend cannot start its threads: " + std::string(error.what()) +
                           ". Ask for fewer with the option 'threads'.")
                              .c_str());
  }
}

std::unique_ptr<Model> MakeModel(int hidden_size, int head_dim, int vocab_size, float rms_eps,
                                 const std::string& instruction_set, int num_threads, bool half_cache,
                                 float embedding_scale, float residual_scale, float attention_scale,
                                 float logit_divisor, bool gelu, int rewind_headroom) {
  if (num_threads < 1 || num_threads > kMostThreads) {
    throw Error("InvalidInputError", "The number of threads must lie between 1 and " + std::to_string(kMostThreads) +
                                         ", found " + std::to_string(num_threads) + ".");
  }
  const ModelShape shape = {hidden_size,    head_dim,      vocab_size,      rms_eps, embedding_scale,
                            residual_scale, logit_divisor, attention_scale, gelu,    rewind_headroom};
  return std::make_unique<Model>(shape, ChooseKernels(instruction_set), num_threads, half_cache);
}

void AddLayer(Model& model, int num_heads, int num_kv_heads, int feed_forward_size, Doubles frequencies,
              bool interleaved, double magnitude, int window) {
  const double* first = frequencies.data();
  model.AddLayer(num_heads, num_kv_heads, feed_forward_size,
                 {{first, first + frequencies.shape(0)}, interleaved, magnitude}, window);
}

void SetTensor(Model& model, int layer, const std::string& role, const std::string& name, int type, int64_t num_columns,
               ByteRows bytes) {
  const RawTensor tensor = {name,        type,         static_cast<int64_t>(bytes.shape(0)),
                            num_columns, bytes.data(), bytes.nbytes()};
  const GilFree gil_free;
  model.SetTensor(layer, role, tensor);
}

void Forward(Model& model, State& state, Ids ids, Rows logits, bool all_rows) {
  const size_t num_rows = all_rows ? ids.shape(0) : 1;
  if (logits.shape(0) != num_rows || logits.shape(1) != static_cast<size_t>(model.shape().vocab_size) ||
      ids.shape(0) > static_cast<size_t>(state.max_length)) {
    throw Error("InvalidInputError", "The logits of " + std::to_string(ids.shape(0)) + " tokens need " +
                                         std::to_string(num_rows) + " rows of the vocabulary's size, and the context " +
                                         "room for " + std::to_string(state.max_length) + ".");
  }
  const GilFree gil_free;
  model.Forward(state, ids.data(), static_cast<int>(ids.shape(0)), all_rows, logits.data());
}

std::vector<std::string> InstructionSets() {
  std::vector<std::string> names;
  for (const Kernels* kernels : AvailableKernels()) names.push_back(kernels->name);
  return names;
}

}  // namespace

NB_MODULE(_native, module) {
  nb::register_exception_translator(TranslateErrors);
  nb::set_leak_warnings(
      false);  // what daemon threads hold when the interpreter ends is no fault, and not to be printed
  GilFree::PrepareForExit();
  module.def("instruction_sets", InstructionSets, "Returns those this processor has, the fastest first.");
  module.def(
      "core_round_trip", [] { return CoreRoundTrip(1000); }, nb::call_guard<GilFree>(),
      "Returns the nanoseconds a cache line takes from one core to another and back; for benchmarks.");
  nb::class_<State>(module, "State")
      .def_ro("length", &State::length)
      .def_ro("max_length", &State::max_length)
      .def_ro("oldest", &State::oldest)
      .def_prop_ro("num_bytes", [](const State& state) { return state.cache.num_bytes(); });
  nb::class_<Model>(module, "Model")
      .def(nb::new_(&MakeModel), "hidden_size"_a, "head_dim"_a, "vocab_size"_a, "rms_eps"_a, "instruction_set"_a,
           "num_threads"_a, "half_cache"_a, "embedding_scale"_a = 1.0f, "residual_scale"_a = 1.0f,
           "attention_scale"_a = 0.0f, "logit_divisor"_a = 1.0f, "gelu"_a = false, "rewind_headroom"_a = 64)
      .def("add_layer", AddLayer, "num_heads"_a, "num_kv_heads"_a, "feed_forward_size"_a, "frequencies"_a.noconvert(),
           "interleaved"_a, "magnitude"_a = 1.0, "window"_a = 0)
      .def("add_experts", &Model::AddExperts, "num_experts"_a, "num_used"_a, "sigmoid_gating"_a)
      .def("set_tensor", SetTensor, "layer"_a, "role"_a, "name"_a, "gguf_type"_a, "num_columns"_a, "data"_a.noconvert())
      .def("finish", &Model::Finish)
      .def_prop_ro("instruction_set", [](const Model& model) { return model.kernels().name; })
      .def_prop_ro("num_threads", &Model::num_threads)
      .def("new_state", &Model::NewState, "max_length"_a)
      .def("copy_state", &Model::CopyState, "state"_a, nb::call_guard<GilFree>())
      .def("truncate", &Model::Truncate, "state"_a, "length"_a)
      .def("forward", Forward, "state"_a, "ids"_a.noconvert(), "logits"_a.noconvert(), "all_rows"_a);
}

}  // namespace cera
