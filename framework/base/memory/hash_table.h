// Hash tables that stay whole when memory runs out while they grow. Abseil's do not: their destructors then free what
// was never allocated.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "absl/hash/hash.h"

namespace belfry {

template <class Key, class Value>
using HashMap = std::unordered_map<Key, Value, absl::Hash<Key>>;
template <class Key>
using HashSet = std::unordered_set<Key, absl::Hash<Key>>;

}  // namespace belfry
