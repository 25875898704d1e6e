// A short generation on a tiny model of every weight format: the same bits on every instruction set, with any number of
// threads, with drafts and without; and what a model must refuse. Made to be run under sanitizers and on other
// machines.
#include <stdio.h>

#include <algorithm>
#include <thread>

#include "dispatch.h"
#include "error.h"
#include "tiny_model.h"

namespace cera {
namespace {

constexpr uint64_t kExpectedFingerprint = 0x2f0da9c977b620e8;

constexpr int kMostTokens = 300;
constexpr int kLongPrompt = 250;  // the text then grows past a chunk of the cache, 256
constexpr int kShortPrompt = 21;
constexpr int kNumGenerated = 14;
constexpr int kNumDrafted = 5;

const TinyShape kWide = {256, 64, 4, 2, 256, 96, 2, false, true, true, true};
const TinyShape kNarrow = {96, 24, 4, 1, 160, 61, 2, true, false, false, false};

const TinyShape kMixed = {96, 24, 4, 2, 96, 61, 2, true, false, true, false, 40, 3, 4};  // all that is not dense

const FileFormat& FormatNamed(const std::string& name) {
  return *std::find_if(FileFormats().begin(), FileFormats().end(), [&](const FileFormat& f) { return f.name == name; });
}

int ArgMax(const float* row, int n) { return static_cast<int>(std::max_element(row, row + n) - row); }

std::vector<int32_t> Prompt(int length, int vocab) {
  Random random(11);
  std::vector<int32_t> ids(static_cast<size_t>(length));
  for (int32_t& id : ids) id = static_cast<int32_t>(random.Next() % static_cast<uint32_t>(vocab));
  return ids;
}

// What a run of a model gave: the ids, and the logits they were chosen from.
struct Text {
  std::vector<int32_t> ids;
  std::vector<float> logits;

  void Append(const float* row, int vocab) {
    logits.insert(logits.end(), row, row + vocab);
    ids.push_back(ArgMax(row, vocab));
  }
};

// One token after the other.
Text GeneratePlainly(Model& model, int prompt_length) {
  const int vocab = model.shape().vocab_size;
  const auto state = model.NewState(kMostTokens);
  const std::vector<int32_t> prompt = Prompt(prompt_length, vocab);
  std::vector<float> row(static_cast<size_t>(vocab));
  model.Forward(*state, prompt.data(), prompt_length, false, row.data());
  Text text;
  text.Append(row.data(), vocab);
  while (static_cast<int>(text.ids.size()) < kNumGenerated) {
    model.Forward(*state, &text.ids.back(), 1, false, row.data());
    text.Append(row.data(), vocab);
  }
  return text;
}

// With drafts that are right now and then; `expected` is where right ones are taken from.
Text GenerateWithDrafts(Model& model, int prompt_length, const Text& expected) {
  const int vocab = model.shape().vocab_size;
  auto state = model.NewState(kMostTokens);
  const std::vector<int32_t> prompt = Prompt(prompt_length, vocab);
  std::vector<float> rows(static_cast<size_t>(prompt_length) * vocab);
  model.Forward(*state, prompt.data(), prompt_length, true, rows.data());
  Text text;
  text.Append(rows.data() + static_cast<size_t>(prompt_length - 1) * vocab, vocab);
  for (int round = 0; static_cast<int>(text.ids.size()) < kNumGenerated; ++round) {
    const int done = static_cast<int>(text.ids.size()), num_drafted = std::min(kNumDrafted, kNumGenerated - done - 1);
    std::vector<int32_t> ids = {text.ids.back()};
    for (int i = 0; i < num_drafted; ++i) ids.push_back(i < round ? expected.ids[done + i] : 0);
    const int length = state->length;
    state = model.CopyState(*state);
    model.Forward(*state, ids.data(), static_cast<int>(ids.size()), true, rows.data());
    size_t num_right = 0;
    do {
      text.Append(rows.data() + num_right * vocab, vocab);
      ++num_right;
    } while (num_right < ids.size() && ids[num_right] == text.ids.back());
    model.Truncate(*state, length + static_cast<int>(num_right));
  }
  return text;
}

void TestGeneration(const TinyShape& shape, const FileFormat& format, bool half_cache, int prompt_length,
                    Fingerprint* fingerprint) {
  const auto plain = MakeTinyModel(shape, format, kPlainKernels, 1, half_cache);
  const Text expected = GeneratePlainly(*plain, prompt_length);
  fingerprint->Add(expected.logits);
  for (const Kernels* kernels : AvailableKernels()) {
    for (int num_threads : {1, 3}) {
      const auto model = MakeTinyModel(shape, format, *kernels, num_threads, half_cache);
      const Text text = GenerateWithDrafts(*model, prompt_length, expected);
      if (text.ids != expected.ids || !SameBits(text.logits, expected.logits)) {
        Fail(std::string(format.name) + " on " + kernels->name + " with " + std::to_string(num_threads) +
             " threads differs from a plain generation");
      }
    }
  }
}

void TestSessionsAtOnce() {
  const auto model = MakeTinyModel(kWide, FormatNamed("Q4_0"), *AvailableKernels().front(), 2, true);
  const Text expected = GeneratePlainly(*model, kShortPrompt);
  Text texts[3];
  std::vector<std::thread> sessions;
  for (Text& text : texts) sessions.emplace_back([&] { text = GenerateWithDrafts(*model, kShortPrompt, expected); });
  for (std::thread& session : sessions) session.join();
  for (const Text& text : texts) {
    if (!SameBits(text.logits, expected.logits)) Fail("sessions on several threads disturb each other");
  }
}

// The logits of a model one of whose tensors begins with a block of a wrong scale.
std::vector<float> DamagedLogits(const std::string& role, uint16_t scale, const Kernels& kernels, int num_threads) {
  const auto damage = [&](const TensorSpec& tensor, std::vector<uint8_t>* bytes) {
    if (tensor.role == role) memcpy(bytes->data(), &scale, sizeof(scale));
  };
  const auto model = MakeTinyModel(kWide, FormatNamed("Q8_0"), kernels, num_threads, true, damage);
  const auto state = model->NewState(10);
  const int32_t ids[] = {1, 2, 3};
  std::vector<float> rows(3 * static_cast<size_t>(kWide.vocab));
  model->Forward(*state, ids, 3, true, rows.data());
  return rows;
}

// What is infinite or no number in the weights gives the same bits everywhere, and does not end as logits that look
// like any others where all of them depend on it.
void TestDamage(Fingerprint* fingerprint) {
  for (const char* role : {"attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight", "ffn_gate.weight",
                           "ffn_up.weight", "ffn_down.weight", "token_embd.weight"}) {
    for (uint16_t scale : {0x7c00, 0xfc00, 0x7e00, 0xfe01}) {  // infinite, and not a number
      const std::string what = std::string(role) + " with the scale " + std::to_string(scale);
      const std::vector<float> expected = DamagedLogits(role, scale, kPlainKernels, 1);
      fingerprint->Add(expected);
      for (const Kernels* kernels : AvailableKernels()) {
        if (!SameBits(DamagedLogits(role, scale, *kernels, 3), expected)) {
          Fail(what + " differs on " + kernels->name);
        }
      }
      const bool reaches_all_logits = what.rfind("ffn_", 0) == 0 || what.rfind("attn_v", 0) == 0;
      if (reaches_all_logits && std::any_of(expected.begin(), expected.end(), [](float x) { return x - x == 0.0f; })) {
        Fail(what + " gives a finite logit");
      }
    }
  }
}

template <class Action>
void ExpectError(const char* python_class, const std::string& what, Action action) {
  try {
    action();
  } catch (const Error& error) {
    if (std::string(error.python_class()) != python_class) Fail(what + " is a " + error.python_class());
    return;
  }
  Fail(what + " is no error");
}

// Layers with a window give back what no query sees: memory stays, and going back further is refused.
void TestForgetting() {
  constexpr int kLongText = 600;
  TinyShape shape = kNarrow;
  shape.window = 40;
  const auto model = MakeTinyModel(shape, FormatNamed("Q8_0"), *AvailableKernels().front(), 2, true);
  const auto state = model->NewState(kLongText);
  const std::vector<int32_t> ids = Prompt(kLongText, shape.vocab);
  std::vector<float> row(static_cast<size_t>(shape.vocab));
  size_t most_bytes = 0;
  for (int start = 0; start < kLongText; start += 50) {
    model->Forward(*state, ids.data() + start, 50, false, row.data());
    most_bytes = std::max(most_bytes, state->cache.num_bytes());
  }
  const auto short_state = model->NewState(kLongText);
  model->Forward(*short_state, ids.data(), 1, false, row.data());
  if (most_bytes > 3 * short_state->cache.num_bytes()) Fail("a window does not bound the cache");
  if (state->oldest == 0 || state->oldest > kLongText - model->shape().rewind_headroom)
    Fail("a state forgets too much");
  ExpectError("RewindError", "a cut before what is held", [&] { model->Truncate(*state, state->oldest - 1); });
  model->Truncate(*state, state->oldest);
  model->Forward(*state, ids.data() + state->length, 1, false, row.data());
}

void TestRefusals() {
  const FileFormat& format = FileFormats()[0];
  const auto model = MakeTinyModel(kNarrow, format, kPlainKernels, 1, true);
  const auto other = MakeTinyModel(kNarrow, format, kPlainKernels, 1, true);
  const auto state = model->NewState(10);
  std::vector<float> rows(static_cast<size_t>(20) * kNarrow.vocab);
  const auto forward = [&](std::vector<int32_t> ids) {
    model->Forward(*state, ids.data(), static_cast<int>(ids.size()), true, rows.data());
  };
  forward({1, 2, 3});
  ExpectError("InvalidInputError", "a negative id", [&] { forward({-1}); });
  ExpectError("InvalidInputError", "an id beyond the vocabulary", [&] { forward({1, kNarrow.vocab}); });
  ExpectError("InvalidInputError", "no id", [&] { forward({}); });
  ExpectError("ContextFullError", "a text beyond the context", [&] { forward(std::vector<int32_t>(8)); });
  ExpectError("RewindError", "a cut beyond the end", [&] { model->Truncate(*state, 4); });
  ExpectError("RewindError", "a cut before the beginning", [&] { model->Truncate(*state, -1); });
  ExpectError("InvalidInputError", "a state for no token", [&] { model->NewState(0); });
  ExpectError("InvalidInputError", "another model's state", [&] { other->Truncate(*state, 0); });
  if (state->length != 3) Fail("an error changed the state");
  forward({4});
  Model unfinished({64, 16, 50, 1e-5f}, kPlainKernels, 1, true);
  ExpectError("ModelError", "a model that is not finished", [&] { unfinished.NewState(10); });
  ExpectError("ModelFileError", "heads too large", [&] { Model({64, 1 << 17, 50, 1e-5f}, kPlainKernels, 1, true); });
  for (double frequency : {1e300, -1e300, __builtin_inf(), __builtin_nan("")}) {
    ExpectError("ModelFileError", "a frequency without bounds",
                [&] { unfinished.AddLayer(4, 2, 64, {{1.0, frequency}, true}); });
  }
}

}  // namespace
}  // namespace cera

int main() {
  using namespace cera;
  Fingerprint fingerprint;
  for (const FileFormat& format : FileFormats()) TestGeneration(kWide, format, true, kShortPrompt, &fingerprint);
  TestGeneration(kWide, FormatNamed("Q4_0"), true, kLongPrompt, &fingerprint);
  TestGeneration(kNarrow, FormatNamed("Q8_0"), false, kLongPrompt, &fingerprint);
  TestGeneration(kNarrow, FormatNamed("F32"), false, kShortPrompt, &fingerprint);
  TestGeneration(kMixed, FormatNamed("Q8_0"), true, kLongPrompt, &fingerprint);
  TestGeneration(kMixed, FormatNamed("F16"), false, kShortPrompt, &fingerprint);
  for (int num_taps : {2, 4}) {
    TinyShape shape = kMixed;
    shape.num_taps = num_taps;
    TestGeneration(shape, FormatNamed("Q4_0"), true, kShortPrompt, &fingerprint);
  }
  TestForgetting();
  TestSessionsAtOnce();
  TestDamage(&fingerprint);
  TestRefusals();
  for (const Kernels* kernels : AvailableKernels()) printf("%s ", kernels->name);
  fingerprint.Check(kExpectedFingerprint);
  return num_failures == 0 ? 0 : 1;
}
