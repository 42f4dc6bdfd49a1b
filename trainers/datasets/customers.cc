#include "trainers/datasets/customers.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/base/philox.h"

namespace belfry::data {
namespace {

constexpr int64_t kCities = 400;
constexpr const char* kPlans[] = {"basic", "family", "plus"};

// About normal, of mean 0 and deviation 1.
double NextNormal(PhiloxStream& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += random.NextFloat();
  return sum;
}

}  // namespace

Customers GenerateCustomers(int64_t rows, uint64_t seed) {
  Customers customers{.csv = "age,income,plan,city,visits,stays\n"};
  const uint64_t key = RandomKey(seed, "customers");
  for (int64_t row = 0; row < rows; ++row) {
    PhiloxStream random(key, static_cast<uint64_t>(row));
    const double u = random.NextFloat();
    const auto city = static_cast<int64_t>(kCities * u * u * u);
    PhiloxStream of_city(RandomKey(seed, "cities"), static_cast<uint64_t>(city));
    const uint32_t plan = random.NextBelow(3);
    const auto age = 18 + static_cast<int64_t>(random.NextBelow(63));
    const int64_t income = std::lround(30'000 + 12'000 * NextNormal(random));
    const bool lacks_income = random.NextBelow(12) == 0;
    const auto visits = static_cast<int64_t>(random.NextBelow(20));
    // The more visits, the better, but for the family plan; the middle ages leave.
    const double middle = (static_cast<double>(age) - 50) / 18;
    double logit = 1.2 * NextNormal(of_city) + 0.9 * middle * middle - 1;
    logit += (plan == 1 ? -0.15 : 0.15) * (static_cast<double>(visits) - 9.5);
    logit += lacks_income ? -0.8 : 0.5 * (static_cast<double>(income) - 30'000) / 12'000;
    const double stays = 1 / (1 + std::exp(-logit));
    customers.entropy -= (stays * std::log(stays) + (1 - stays) * std::log1p(-stays)) / static_cast<double>(rows);
    absl::StrAppend(&customers.csv, age, ",", lacks_income ? "" : absl::StrCat(income), ",", kPlans[plan], ",town ",
                    city, ",", visits, ",", random.NextFloat() < stays ? "yes" : "no", "\n");
  }
  return customers;
}

}  // namespace belfry::data
