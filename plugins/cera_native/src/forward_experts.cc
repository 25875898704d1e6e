// The feed-forward of a layer with experts: rows are grouped by expert, so that each chosen one is read once.
#include <math.h>
#include <string.h>

#include <algorithm>

#include "forward.h"

namespace cera {
namespace {

// e^x with one definition for all machines: 2^n e^r, |r| <= ln(2) / 2, Taylor's polynomial of degree 14.
double ExpOf(double x) {
  if (x != x) return x;
  x = std::clamp(x, -700.0, 700.0);
  const double n = floor(x * 1.44269504088896340736 + 0.5);
  const double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
  double sum = 1.0;
  for (int i = 14; i > 0; --i) sum = sum * r / i + 1.0;
  return ldexp(sum, static_cast<int>(n));
}

// Turns the scores of one row into weights: each by itself, or shares of one.
void WeighExperts(bool sigmoid, int num_experts, float* scores) {
  const float maximum = *std::max_element(scores, scores + num_experts);
  double total = 0;
  for (int i = 0; i < num_experts; ++i) {
    const double power = sigmoid ? 1.0 / (1.0 + ExpOf(-static_cast<double>(scores[i])))
                                 : ExpOf(static_cast<double>(scores[i]) - maximum);
    total += power;
    scores[i] = static_cast<float>(power);
  }
  for (int i = 0; !sigmoid && i < num_experts; ++i) scores[i] = static_cast<float>(scores[i] / total);
}

}  // namespace

void ExpertChoice::Resize(int num_rows, int num_experts, int num_used) {
  const size_t num_slots = static_cast<size_t>(num_rows) * num_used;
  weights.resize(static_cast<size_t>(num_rows) * num_experts);
  chosen.resize(num_slots);
  shares.resize(num_slots);
  slots.resize(num_slots);
  rows.resize(num_slots);
  first_slots.resize(static_cast<size_t>(num_experts) + 1);
  active.reserve(static_cast<size_t>(num_experts));
}

void ForwardPass::RunExperts(const Layer& layer) {
  ExpertChoice& choice = ws_.choice;
  const Product scores = {&layer.router, nullptr, choice.weights.data(), static_cast<size_t>(layer.num_experts), false};
  Multiply(&scores, 1, normed_);
  team_.Barrier();
  const Range rows = Share(num_rows_);
  for (int row = rows.first; row < rows.last; ++row) ChooseExperts(layer, row);
  team_.Barrier();
  if (thread_ == 0) GroupByExpert(layer);
  team_.Barrier();
  GatherRows(layer);
  team_.Barrier();
  const int blocks_per_expert = (layer.feed_forward_size + kBlock - 1) / kBlock;
  ForEachExpert(blocks_per_expert, [&](int expert, Range slots, Range blocks) {
    const Columns x = ws_.gathered.ViewFrom(hidden_, slots.first);
    const Columns y = ws_.gated.ViewFrom(layer.feed_forward_size, slots.first);
    GateAndUp(layer, layer.expert_gate[expert], layer.expert_up[expert], x, y, slots.last - slots.first, blocks);
  });
  team_.Barrier();
  ForEachExpert(layer.expert_down[0].num_tiles(), [&](int expert, Range slots, Range tiles) {
    const Product down = {&layer.expert_down[expert], nullptr, nullptr, static_cast<size_t>(hidden_), false};
    float* y = ws_.expert_outputs.data() + static_cast<size_t>(slots.first) * hidden_ + tiles.first * kTileRows;
    MultiplyTiles(down, ws_.gated.ViewFrom(layer.feed_forward_size, slots.first), slots.last - slots.first, tiles, y);
  });
  team_.Barrier();
  for (int row = rows.first; row < rows.last; ++row) AddExperts(layer, row);
  AddToResidual(layer.post_feed_forward_norm);  // of the same rows
}

// Chooses a row's experts by weight plus bias, the lowest of equal ones, and puts them in the order of their numbers.
void ForwardPass::ChooseExperts(const Layer& layer, int row) {
  ExpertChoice& choice = ws_.choice;
  float* weights = choice.weights.data() + static_cast<size_t>(row) * layer.num_experts;
  int* chosen = choice.chosen.data() + static_cast<size_t>(row) * layer.num_used;
  float* shares = choice.shares.data() + static_cast<size_t>(row) * layer.num_used;
  WeighExperts(layer.sigmoid_gating, layer.num_experts, weights);
  const auto score = [&](int expert) {
    return weights[expert] + (layer.selection_bias.empty() ? 0.0f : layer.selection_bias[expert]);
  };
  float total = 0;
  for (int i = 0; i < layer.num_used; ++i) {
    int best = -1;
    for (int expert = 0; expert < layer.num_experts; ++expert) {
      if (std::find(chosen, chosen + i, expert) != chosen + i) continue;
      if (best < 0 || score(expert) > score(best)) best = expert;
    }
    chosen[i] = best;
    total += weights[best];
  }
  std::sort(chosen, chosen + layer.num_used);
  total = total > kSmallestTotal || total != total ? total : kSmallestTotal;
  for (int i = 0; i < layer.num_used; ++i) shares[i] = weights[chosen[i]] / total;
}

// Gives each expert a run of slots, one for each of its rows, in their order.
void ForwardPass::GroupByExpert(const Layer& layer) {
  ExpertChoice& choice = ws_.choice;
  const int num_slots = num_rows_ * layer.num_used;
  std::fill(choice.first_slots.begin(), choice.first_slots.end(), 0);
  for (int i = 0; i < num_slots; ++i) ++choice.first_slots[choice.chosen[i] + 1];
  choice.active.clear();
  for (int expert = 0; expert < layer.num_experts; ++expert) {
    if (choice.first_slots[expert + 1] > 0) choice.active.push_back(expert);
    choice.first_slots[expert + 1] += choice.first_slots[expert];
  }
  for (int i = 0; i < num_slots; ++i) {  // `first_slots` counts up to the next expert's
    const int slot = choice.first_slots[choice.chosen[i]]++;
    choice.slots[i] = slot;
    choice.rows[slot] = i / layer.num_used;
  }
  for (int expert = layer.num_experts; expert > 0; --expert) {
    choice.first_slots[expert] = choice.first_slots[expert - 1];
  }
  choice.first_slots[0] = 0;
}

// Copies the normed rows into their slots; as codes, they lie side by side with those of the same expert.
void ForwardPass::GatherRows(const Layer& layer) {
  const ExpertChoice& choice = ws_.choice;
  const Range share = Share(num_rows_ * layer.num_used);
  const auto next = [&](int slot) {  // the first slot of the next expert
    return *std::upper_bound(choice.first_slots.begin(), choice.first_slots.end(), slot);
  };
  for (int slot = share.first; slot < share.last; ++slot) {
    const int end = next(slot);
    const int first = *(std::upper_bound(choice.first_slots.begin(), choice.first_slots.end(), slot) - 1);
    const Columns x = ws_.gathered.ViewFrom(hidden_, first);
    float* values = x.column(slot - first);
    memcpy(values, normed_.column(choice.rows[slot]), static_cast<size_t>(hidden_) * sizeof(float));
    kernels_.quantise(values, slot - first, 0, hidden_ / kBlock, x.Quantised(end - first));
  }
}

// Each thread takes an equal share of the units of all chosen experts, as one run.
template <class Function>
void ForwardPass::ForEachExpert(int units_per_expert, Function function) {
  const ExpertChoice& choice = ws_.choice;
  const Range share = Share(static_cast<int>(choice.active.size()) * units_per_expert);
  for (int unit = share.first; unit < share.last;) {
    const int expert = choice.active[unit / units_per_expert], first = unit % units_per_expert;
    const int last = std::min(units_per_expert, first + share.last - unit);
    function(expert, Range{choice.first_slots[expert], choice.first_slots[expert + 1]}, Range{first, last});
    unit += last - first;
  }
}

void ForwardPass::AddExperts(const Layer& layer, int row) {
  const ExpertChoice& choice = ws_.choice;
  float* mixed = ws_.mixed.data() + static_cast<size_t>(row) * hidden_;
  std::fill(mixed, mixed + hidden_, 0.0f);
  for (int i = row * layer.num_used; i < (row + 1) * layer.num_used; ++i) {
    const float* output = ws_.expert_outputs.data() + static_cast<size_t>(choice.slots[i]) * hidden_;
    for (int k = 0; k < hidden_; ++k) mixed[k] += output[k] * choice.shares[i];
  }
}

}  // namespace cera
