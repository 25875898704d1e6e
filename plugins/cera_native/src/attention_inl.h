// Attention of some queries over one chunk of keys and values. Included after elementwise_inl.h.
//
// Scores have a key in each lane, outputs an element of the head: neither is summed across lanes. A query's result for
// a chunk depends on that query and the chunk alone, and chunks begin at fixed positions and join in their order.
#ifndef CERA_NATIVE_ATTENTION_INL_H_
#define CERA_NATIVE_ATTENTION_INL_H_

#include <type_traits>

#include "elementwise_inl.h"
#include "kernels.h"

namespace cera {
namespace {

// So many keys are met by all queries before the next: they stay in the nearest cache.
constexpr int kTileKeys = kTileVectors * kLanes;
static_assert(kChunkKeys % kTileKeys == 0);

CERA_INLINE Floats LoadCached(const float* p) { return LoadFloats(p); }
CERA_INLINE Floats LoadCached(const uint16_t* p) { return LoadHalfs(p); }
CERA_INLINE void StoreCached(float* p, Floats a) { StoreFloats(p, a); }
CERA_INLINE void StoreCached(uint16_t* p, Floats a) { StoreHalfs(p, a); }

CERA_INLINE int RoundUpToLanes(int n) { return (n + kLanes - 1) / kLanes * kLanes; }
CERA_INLINE int Least(int a, int b) { return a < b ? a : b; }

// How many of `left` queries go together: at most kTileQueries, and rather 3 + 2 than 4 + 1.
CERA_INLINE int NumTogether(int left) {
  const int num_runs = (left + kTileQueries - 1) / kTileQueries;
  return (left + num_runs - 1) / num_runs;
}

// Calls function with a constant equal to `count`, which is at most kMost.
template <int kMost = kTileQueries, class Function>
CERA_INLINE void WithConstant(int count, Function function) {
  if (count == kMost) return function(std::integral_constant<int, kMost>());
  if constexpr (kMost > 1) WithConstant<kMost - 1>(count, function);
}

// Scores of kQueries queries and kGroups times sixteen keys.
template <class Element, int kQueries, int kGroups>
__attribute__((noinline)) void ScoreTile(const Element* keys, const float* queries, int head_dim, float* scores) {
  Floats totals[kQueries][kGroups];
#pragma GCC unroll 8
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) totals[q][g] = Broadcast(0.0f);
  }
  for (int d = 0; d < head_dim; ++d) {
    Floats key[kGroups];
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
      const Element* p = keys + (g * head_dim + d) * kLanes;
      __builtin_prefetch(p + kGroups * head_dim * kLanes);
      key[g] = LoadCached(p);
    }
#pragma GCC unroll 8
    for (int q = 0; q < kQueries; ++q) {
      const Floats query = Broadcast(queries[q * head_dim + d]);
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) totals[q][g] = MultiplyAdd(key[g], query, totals[q][g]);
    }
  }
#pragma GCC unroll 8
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) StoreFloats(scores + q * kChunkKeys + g * kLanes, totals[q][g]);
  }
}

// Scores of the keys from `first_key` on, a tile or less, with each query that sees any of them.
template <class Element>
void ScoreKeys(const AttendArgs& args, int query, const Element* keys, int first_key) {
  const int head_dim = args.head_dim;
  for (int count; query < args.num_queries; query += count) {
    count = NumTogether(args.num_queries - query);
    const int num_keys = Least(kTileKeys, args.num_visible[query + count - 1] - first_key);
    const float* queries = args.queries + query * head_dim;
    float* scores = args.scores + query * kChunkKeys + first_key;
    WithConstant(count, [&](auto queries_together) {
      constexpr int kQueries = decltype(queries_together)::value;
      if (num_keys > kTileKeys - kLanes)
        return ScoreTile<Element, kQueries, kTileVectors>(keys, queries, head_dim, scores);
      for (int key = 0; key < num_keys; key += kLanes) {
        ScoreTile<Element, kQueries, 1>(keys + key * head_dim, queries, head_dim, scores + key);
      }
    });
  }
}

template <class Element>
void ScoreAll(const AttendArgs& args, int first) {
  const int num_keys = args.num_visible[args.num_queries - 1];
  for (int key = 0; key < num_keys; key += kTileKeys) {
    const Element* keys = static_cast<const Element*>(args.keys) + key * args.head_dim;
    ScoreKeys(args, first, keys, key);
  }
}

// e^x for x <= 0, from -86 on: 2^n * e^r with |r| <= ln(2) / 2. The polynomial of degree 6 has the least largest
// relative error there among those whose first coefficient is 1, below 3e-9 (found by reweighted least squares).
CERA_INLINE Floats ExpUpToZero(Floats x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number, in the lowest bits
  constexpr float kCoefficients[] = {8.374857e-3f, 4.1668229e-2f, 0.1666642f, 0.49999991f, 1.0f, 1.0f};
  x = Max(x, Broadcast(-86.0f));
  const Floats rounded = MultiplyAdd(x, Broadcast(1.44269504f), Broadcast(kMagic));
  const Floats whole = Subtract(rounded, Broadcast(kMagic));
  Floats r = MultiplyAdd(whole, Broadcast(-0.693359375f), x);     // ln(2) in two parts, the first of few bits,
  r = MultiplyAdd(whole, Broadcast(2.12194440054690583e-4f), r);  // so that the product is exact
  Floats sum = Broadcast(1.3836794e-3f);
  for (float coefficient : kCoefficients) sum = MultiplyAdd(sum, r, Broadcast(coefficient));
  return FromBits(AddInts(BitsOf(sum), ShiftLeft<23>(BitsOf(rounded))));
}

// Turns the visible scores of one query, none before `first_visible`, into weights e^(score - maximum).
void ExponentiateScores(float* scores, int first_visible, int num_visible, float* maximum_of_all, float* sum_of_all) {
  const int num_padded = RoundUpToLanes(num_visible), last = num_padded - kLanes;
  for (int i = 0; i < first_visible; ++i) scores[i] = -__builtin_inff();
  for (int i = num_visible; i < num_padded; ++i) scores[i] = -__builtin_inff();
  Floats maxima = LoadFloats(scores);
  for (int i = kLanes; i < num_padded; i += kLanes) maxima = Max(maxima, LoadFloats(scores + i));
  const float maximum = MaxOfLanes(maxima);
  Floats sums = Broadcast(0.0f);
  for (int i = 0; i < num_padded; i += kLanes) {
    StoreFloats(scores + i, ExpUpToZero(Subtract(LoadFloats(scores + i), Broadcast(maximum))));
    if (i == last) {
      for (int hidden = num_visible; hidden < num_padded; ++hidden) scores[hidden] = 0.0f;
    }
    for (int hidden = i; hidden < i + kLanes && hidden < first_visible; ++hidden) scores[hidden] = 0.0f;
    sums = Add(sums, LoadFloats(scores + i));
  }
  *maximum_of_all = maximum;
  *sum_of_all = SumOfLanes(sums);
}

// Adds weight * value of some keys to kParts times sixteen elements of kQueries outputs.
template <class Element, int kQueries, int kParts>
__attribute__((noinline)) void AddValueTile(const Element* values, int stride, const float* weights, int num_keys,
                                            float* outputs) {
  Floats totals[kQueries][kParts];
#pragma GCC unroll 8
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 4
    for (int i = 0; i < kParts; ++i) totals[q][i] = LoadFloats(outputs + q * stride + i * kLanes);
  }
  for (int key = 0; key < num_keys; ++key) {
    Floats value[kParts];
#pragma GCC unroll 4
    for (int i = 0; i < kParts; ++i) {
      const Element* p = values + key * stride + i * kLanes;
      __builtin_prefetch(p + kTileKeys * stride);
      value[i] = LoadCached(p);
    }
#pragma GCC unroll 8
    for (int q = 0; q < kQueries; ++q) {
      const Floats weight = Broadcast(weights[q * kChunkKeys + key]);
#pragma GCC unroll 4
      for (int i = 0; i < kParts; ++i) totals[q][i] = MultiplyAdd(weight, value[i], totals[q][i]);
    }
  }
#pragma GCC unroll 8
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 4
    for (int i = 0; i < kParts; ++i) StoreFloats(outputs + q * stride + i * kLanes, totals[q][i]);
  }
}

template <class Element, int kQueries>
void AddValueRows(const Element* values, int stride, const float* weights, int num_keys, float* outputs) {
  int i = 0;
  for (; i + kTileVectors * kLanes <= stride; i += kTileVectors * kLanes) {
    AddValueTile<Element, kQueries, kTileVectors>(values + i, stride, weights, num_keys, outputs + i);
  }
  for (; i < stride; i += kLanes) {
    AddValueTile<Element, kQueries, 1>(values + i, stride, weights, num_keys, outputs + i);
  }
}

// The values of the keys from `first_key` to `last_key` for each query. What all queries that go together see is added
// together, the rest query by query: the order within a query stays.
template <class Element>
void AddValues(const AttendArgs& args, int query, const Element* values, int first_key, int last_key) {
  const int stride = args.padded_head_dim;
  for (int count; query < args.num_queries; query += count) {
    count = NumTogether(args.num_queries - query);
    const float* weights = args.scores + query * kChunkKeys + first_key;
    float* outputs = args.result.outputs + query * stride;
    const int shared = Least(args.num_visible[query], last_key) - first_key;
    const int num_shared = shared > 0 ? shared : 0;
    WithConstant(count, [&](auto queries_together) {
      AddValueRows<Element, decltype(queries_together)::value>(values, stride, weights, num_shared, outputs);
    });
    for (int q = 0; q < count; ++q) {
      const int num_left = Least(args.num_visible[query + q], last_key) - first_key - num_shared;
      if (num_left <= 0) continue;
      AddValueRows<Element, 1>(values + num_shared * stride, stride, weights + q * kChunkKeys + num_shared, num_left,
                               outputs + q * stride);
    }
  }
}

template <class Element>
void AddAllValues(const AttendArgs& args, int first) {
  const int stride = args.padded_head_dim, num_keys = args.num_visible[args.num_queries - 1];
  const auto* values = static_cast<const Element*>(args.values);
  for (int key = 0; key < num_keys; key += kTileKeys) {
    AddValues(args, first, values + key * stride, key, Least(num_keys, key + kTileKeys));
  }
}

template <class Element>
void AttendChunk(const AttendArgs& args) {
  const Gathered& result = args.result;
  int first = 0;  // queries before it see nothing of this chunk
  for (; first < args.num_queries && args.num_visible[first] <= 0; ++first) result.sums[first] = 0.0f;
  if (first == args.num_queries) return;
  ScoreAll<Element>(args, first);
  for (int query = first; query < args.num_queries; ++query) {
    const int first_visible = args.first_visible == nullptr ? 0 : args.first_visible[query];
    ExponentiateScores(args.scores + query * kChunkKeys, first_visible, args.num_visible[query], result.maxima + query,
                       result.sums + query);
  }
  const int stride = args.padded_head_dim;
  for (int i = first * stride; i < args.num_queries * stride; i += kLanes) {
    StoreFloats(result.outputs + i, Broadcast(0.0f));
  }
  AddAllValues<Element>(args, first);
}

void Attend(const AttendArgs& args, bool half) {
  if (half)
    AttendChunk<uint16_t>(args);
  else
    AttendChunk<float>(args);
}

void Join(const Gathered& chunk, int num_queries, int padded_head_dim, const Gathered& total) {
  for (int query = 0; query < num_queries; ++query) {
    if (chunk.sums[query] == 0.0f) continue;
    const float old_maximum = total.maxima[query], chunk_maximum = chunk.maxima[query];
    const float maximum = old_maximum > chunk_maximum ? old_maximum : chunk_maximum;
    float factors[kLanes] = {old_maximum - maximum, chunk_maximum - maximum};
    StoreFloats(factors, ExpUpToZero(LoadFloats(factors)));
    total.maxima[query] = maximum;
    total.sums[query] = __builtin_fmaf(chunk.sums[query], factors[1], total.sums[query] * factors[0]);
    float* output = total.outputs + query * padded_head_dim;
    const float* added = chunk.outputs + query * padded_head_dim;
    for (int i = 0; i < padded_head_dim; i += kLanes) {
      const Floats old = Multiply(LoadFloats(output + i), Broadcast(factors[0]));
      StoreFloats(output + i, MultiplyAdd(LoadFloats(added + i), Broadcast(factors[1]), old));
    }
  }
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
