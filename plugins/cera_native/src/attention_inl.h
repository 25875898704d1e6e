// Attention of some queries over one chunk of keys and values. Included after elementwise_inl.h.
//
// Scores have a key in each lane, outputs an element of the head: neither is summed across lanes. A query's result for
// a chunk depends on that query and the chunk alone, and chunks begin at fixed positions and join in their order.
#ifndef CERA_NATIVE_ATTENTION_INL_H_
#define CERA_NATIVE_ATTENTION_INL_H_

#include "elementwise_inl.h"
#include "kernels.h"

namespace cera {
namespace {

CERA_INLINE Floats LoadCached(const float* p) { return LoadFloats(p); }
CERA_INLINE Floats LoadCached(const uint16_t* p) { return LoadHalfs(p); }
CERA_INLINE void StoreCached(float* p, Floats a) { StoreFloats(p, a); }
CERA_INLINE void StoreCached(uint16_t* p, Floats a) { StoreHalfs(p, a); }

// Scores of kQueries queries and kGroups times sixteen keys.
template <class Element, int kQueries, int kGroups>
CERA_INLINE void ScoreTile(const Element* keys, const float* queries, int head_dim, float* scores) {
  Floats totals[kQueries][kGroups];
#pragma GCC unroll 8
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) totals[q][g] = Broadcast(0.0f);
  }
  for (int d = 0; d < head_dim; ++d) {
    Floats key[kGroups];
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) key[g] = LoadCached(keys + (g * head_dim + d) * kLanes);
#pragma GCC unroll 8
    for (int q = 0; q < kQueries; ++q) {
      const Floats query = Broadcast(queries[q * head_dim + d]);
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) totals[q][g] = MultiplyAdd(key[g], query, totals[q][g]);
    }
  }
#pragma GCC unroll 4
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) StoreFloats(scores + q * kChunkKeys + g * kLanes, totals[q][g]);
  }
}

template <class Element, int kQueries>
void ScoreKeys(const Element* keys, int num_groups, const float* queries, int head_dim, float* scores) {
  int group = 0;
  for (; group + 4 <= num_groups; group += 4) {
    ScoreTile<Element, kQueries, 4>(keys + group * kLanes * head_dim, queries, head_dim, scores + group * kLanes);
  }
  for (; group < num_groups; ++group) {
    ScoreTile<Element, kQueries, 1>(keys + group * kLanes * head_dim, queries, head_dim, scores + group * kLanes);
  }
}

constexpr int kMostTogether = 4;

CERA_INLINE int RoundUpToLanes(int n) { return (n + kLanes - 1) / kLanes * kLanes; }

// How many of `left` queries go together: at most four, and rather 3 + 2 than 4 + 1.
CERA_INLINE int NumTogether(int left) {
  const int num_runs = (left + kMostTogether - 1) / kMostTogether;
  return (left + num_runs - 1) / num_runs;
}

template <class Element>
void ScoreAll(const AttendArgs& args, int first) {
  const auto* keys = static_cast<const Element*>(args.keys);
  for (int query = first; query < args.num_queries;) {
    const float* queries = args.queries + query * args.head_dim;
    float* scores = args.scores + query * kChunkKeys;
    const int count = NumTogether(args.num_queries - query);
    const int num_groups = RoundUpToLanes(args.num_visible[query + count - 1]) / kLanes;
    if (count == 4) ScoreKeys<Element, 4>(keys, num_groups, queries, args.head_dim, scores);
    if (count == 3) ScoreKeys<Element, 3>(keys, num_groups, queries, args.head_dim, scores);
    if (count == 2) ScoreKeys<Element, 2>(keys, num_groups, queries, args.head_dim, scores);
    if (count == 1) ScoreKeys<Element, 1>(keys, num_groups, queries, args.head_dim, scores);
    query += count;
  }
}

// Turns the visible scores of one query into weights e^(score - maximum); returns maximum and sum of the weights.
struct SoftmaxPart {
  float maximum, sum;
};
SoftmaxPart ExponentiateScores(float* scores, int num_visible) {
  const int num_padded = RoundUpToLanes(num_visible);
  for (int i = num_visible; i < num_padded; ++i) scores[i] = -__builtin_inff();
  Floats maxima = LoadFloats(scores);
  for (int i = kLanes; i < num_padded; i += kLanes) maxima = Max(maxima, LoadFloats(scores + i));
  const float maximum = MaxOfLanes(maxima);
  for (int i = 0; i < num_padded; i += kLanes) {
    StoreFloats(scores + i, Exp(Subtract(LoadFloats(scores + i), Broadcast(maximum))));
  }
  for (int i = num_visible; i < num_padded; ++i) scores[i] = 0.0f;
  Floats sums = Broadcast(0.0f);
  for (int i = 0; i < num_padded; i += kLanes) sums = Add(sums, LoadFloats(scores + i));
  return {maximum, SumOfLanes(sums)};
}

// Adds weight * value of the keys [first, last) to kParts times sixteen elements of kQueries outputs.
template <class Element, int kQueries, int kParts>
CERA_INLINE void AddValueTile(const Element* values, int stride, const float* weights, int first, int last,
                              float* outputs) {
  Floats totals[kQueries][kParts];
#pragma GCC unroll 4
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 4
    for (int i = 0; i < kParts; ++i) totals[q][i] = LoadFloats(outputs + q * stride + i * kLanes);
  }
  for (int key = first; key < last; ++key) {
    Floats value[kParts];
#pragma GCC unroll 4
    for (int i = 0; i < kParts; ++i) value[i] = LoadCached(values + static_cast<size_t>(key) * stride + i * kLanes);
#pragma GCC unroll 4
    for (int q = 0; q < kQueries; ++q) {
      const Floats weight = Broadcast(weights[q * kChunkKeys + key]);
#pragma GCC unroll 4
      for (int i = 0; i < kParts; ++i) totals[q][i] = MultiplyAdd(weight, value[i], totals[q][i]);
    }
  }
#pragma GCC unroll 4
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 4
    for (int i = 0; i < kParts; ++i) StoreFloats(outputs + q * stride + i * kLanes, totals[q][i]);
  }
}

template <class Element, int kQueries>
void AddValues(const Element* values, int stride, const float* weights, int first, int last, float* outputs) {
  int i = 0;
  for (; i + 4 * kLanes <= stride; i += 4 * kLanes) {
    AddValueTile<Element, kQueries, 4>(values + i, stride, weights, first, last, outputs + i);
  }
  for (; i < stride; i += kLanes) {
    AddValueTile<Element, kQueries, 1>(values + i, stride, weights, first, last, outputs + i);
  }
}

// The keys that all of some queries see go together, the rest query by query: the order within a query stays.
template <class Element>
void AddAllValues(const AttendArgs& args, int first) {
  const auto* values = static_cast<const Element*>(args.values);
  const int stride = args.padded_head_dim;
  for (int query = first; query < args.num_queries;) {
    const float* weights = args.scores + query * kChunkKeys;
    float* outputs = args.partial + query * stride;
    const int count = NumTogether(args.num_queries - query), shared = args.num_visible[query];
    if (count == 4) AddValues<Element, 4>(values, stride, weights, 0, shared, outputs);
    if (count == 3) AddValues<Element, 3>(values, stride, weights, 0, shared, outputs);
    if (count == 2) AddValues<Element, 2>(values, stride, weights, 0, shared, outputs);
    if (count == 1) AddValues<Element, 1>(values, stride, weights, 0, shared, outputs);
    for (int q = 0; q < count; ++q) {
      const int last = args.num_visible[query + q];
      if (last == shared) continue;
      AddValues<Element, 1>(values, stride, weights + q * kChunkKeys, shared, last, outputs + q * stride);
    }
    query += count;
  }
}

// Joins a chunk's outcome to what earlier chunks gave.
void JoinChunk(const AttendArgs& args, int query, SoftmaxPart part) {
  const float old_maximum = args.maxima[query];
  const float maximum = old_maximum > part.maximum ? old_maximum : part.maximum;
  float factors[kLanes] = {old_maximum - maximum, part.maximum - maximum};
  StoreFloats(factors, Exp(LoadFloats(factors)));
  args.maxima[query] = maximum;
  args.sums[query] = __builtin_fmaf(part.sum, factors[1], args.sums[query] * factors[0]);
  float* output = args.output + query * args.padded_head_dim;
  const float* partial = args.partial + query * args.padded_head_dim;
  for (int i = 0; i < args.padded_head_dim; i += kLanes) {
    const Floats old = Multiply(LoadFloats(output + i), Broadcast(factors[0]));
    StoreFloats(output + i, MultiplyAdd(LoadFloats(partial + i), Broadcast(factors[1]), old));
  }
}

template <class Element>
void AttendChunk(const AttendArgs& args) {
  int first = 0;  // queries before it see nothing of this chunk
  while (first < args.num_queries && args.num_visible[first] <= 0) ++first;
  if (first == args.num_queries) return;
  ScoreAll<Element>(args, first);
  SoftmaxPart parts[kMaxQueryRows];
  for (int query = first; query < args.num_queries; ++query) {
    parts[query] = ExponentiateScores(args.scores + query * kChunkKeys, args.num_visible[query]);
  }
  const int stride = args.padded_head_dim;
  for (int i = first * stride; i < args.num_queries * stride; i += kLanes) StoreFloats(args.partial + i, Broadcast(0));
  AddAllValues<Element>(args, first);
  for (int query = first; query < args.num_queries; ++query) JoinChunk(args, query, parts[query]);
}

void Attend(const AttendArgs& args, bool half) {
  if (half)
    AttendChunk<uint16_t>(args);
  else
    AttendChunk<float>(args);
}

template <class Element>
void StoreKeyAs(const float* key, int head_dim, int index, Element* keys) {
  Element* p = keys + index / kLanes * kLanes * head_dim + index % kLanes;
  ForEachVector(0, head_dim, [&](int d, auto load, auto) {
    Element elements[kLanes];
    StoreCached(elements, load(key + d));
    for (int i = 0; i < kLanes && d + i < head_dim; ++i) p[(d + i) * kLanes] = elements[i];
  });
}
void StoreKey(const float* key, int head_dim, int index, bool half, void* keys) {
  if (half)
    StoreKeyAs(key, head_dim, index, static_cast<uint16_t*>(keys));
  else
    StoreKeyAs(key, head_dim, index, static_cast<float*>(keys));
}

template <class Element>
void StoreValueAs(const float* value, int head_dim, int padded_head_dim, int index, Element* values) {
  Element* p = values + static_cast<size_t>(index) * padded_head_dim;
  ForEachVector(0, head_dim, [&](int d, auto load, auto) { StoreCached(p + d, load(value + d)); });
}
void StoreValue(const float* value, int head_dim, int padded_head_dim, int index, bool half, void* values) {
  if (half)
    StoreValueAs(value, head_dim, padded_head_dim, index, static_cast<uint16_t*>(values));
  else
    StoreValueAs(value, head_dim, padded_head_dim, index, static_cast<float*>(values));
}

}  // namespace
}  // namespace cera

#endif  // CERA_NATIVE_ATTENTION_INL_H_
