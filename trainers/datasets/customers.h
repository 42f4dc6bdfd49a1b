// A generated table, for trying models of tables out without a file.
#pragma once

#include <cstdint>
#include <string>

namespace belfry::data {

struct Customers {
  // A row for each customer: age (whole), income (lacking in one of twelve rows), plan (3 categories), city (400, the
  // first of which have most customers), visits (whole), and stays, "yes" or "no".
  std::string csv;
  // The mean entropy of `stays` given the other columns, in nats. No model's expected log loss is below it.
  double entropy = 0;
};
// The same bytes for the same arguments. REQUIRES: rows > 0.
Customers GenerateCustomers(int64_t rows, uint64_t seed);

}  // namespace belfry::data
