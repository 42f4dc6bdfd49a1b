// String literals of C++ sources, and the names of ops among them.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace belfry::layering {

// True for the characters of identifiers.
bool IsWordCharacter(char c);

struct Literal {
  size_t line = 0;
  std::string text;    // as it is written between the quotes
  bool named = false;  // follows "name ="
};

// The string literals of a source, in order, without those in comments. Raw strings are passed over.
std::vector<Literal> FindLiterals(absl::string_view source);

// Adds the names of the ops that a source of ops/ mentions: what follows "name =", and every literal that is one
// capitalised word ("Conv2D", but not "CPU", "x" or "of shape"); and each with "Grad" after it, because a family names
// gradients so. More than the registered names, but nothing that framework would have in a literal of its own.
void AddOpNames(absl::string_view source, std::set<std::string>& names);

}  // namespace belfry::layering
