// Benchmark of the CIFAR-10 tutorial network as bare oneDNN primitives: images per second, and a profile.
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "benchmarks/bench_model.h"
#include "benchmarks/cifar10_chain.h"
#include "benchmarks/main.h"
#include "benchmarks/paired_runs.h"
#include "framework/base/status.h"
#include "nlohmann/json.hpp"

ABSL_FLAG(int, batch, 128, "Images per step.");
ABSL_FLAG(std::vector<std::string>, threads, std::vector<std::string>({"1", "2"}),
          "Numbers of OpenMP threads to measure.");
ABSL_FLAG(int, rounds, 5, "Measurements of each number of threads, taken in turn.");
ABSL_FLAG(double, seconds, 1, "Length of a measurement in seconds.");
ABSL_FLAG(bool, profile, true, "Also time each primitive by itself.");
ABSL_FLAG(bool, json, false, "Print JSON instead of tables.");

namespace belfry::benchmarks {
namespace {

struct Measured {
  int threads = 0;
  float first_loss = 0, last_loss = 0;
  std::vector<Cifar10Chain::Part> parts = {};
};

// `sides` are those of `all`, named by their threads.
void PrintTables(int batch, const std::vector<Measured>& all, const std::vector<Side>& sides) {
  for (size_t i = 0; i < all.size(); ++i) {
    const std::vector<double>& rates = sides[i].rates;
    const auto [worst, best] = std::minmax_element(rates.begin(), rates.end());
    std::printf("batch %d, %s: %.0f images/s best, %.0f median, %.0f worst of %zu; loss %.4f -> %.4f\n", batch,
                sides[i].name.c_str(), *best, Median(rates), *worst, rates.size(), all[i].first_loss, all[i].last_loss);
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].parts.empty()) continue;
    double total = 0;
    for (const auto& part : all[i].parts) total += part.milliseconds;
    std::printf("\n%s: shortest times, %.2f ms together\n", sides[i].name.c_str(), total);
    for (const auto& part : all[i].parts) {
      const std::string rate =
          part.flops > 0 ? absl::StrFormat("%.1f GFLOP/s", part.flops / part.milliseconds * 1e-6) : "";
      std::printf("%9.3f ms %5.1f %% %15s  %-28s %s\n", part.milliseconds, 100 * part.milliseconds / total,
                  rate.c_str(), part.name.c_str(), part.implementation.c_str());
    }
  }
}

void PrintJson(int batch, const std::vector<Measured>& all, const std::vector<Side>& sides) {
  nlohmann::json out;
  for (size_t i = 0; i < all.size(); ++i) {
    nlohmann::json parts = nlohmann::json::array();
    for (const auto& part : all[i].parts) {
      parts.push_back({{"name", part.name},
                       {"implementation", part.implementation},
                       {"flops", part.flops},
                       {"milliseconds", part.milliseconds}});
    }
    out.push_back({{"benchmark", "cifar10_chain"},
                   {"batch", batch},
                   {"threads", all[i].threads},
                   {"images_per_second", sides[i].rates},
                   {"first_loss", all[i].first_loss},
                   {"last_loss", all[i].last_loss},
                   {"parts", parts}});
  }
  std::printf("%s\n", out.dump(2).c_str());
}

absl::Status Run() {
  const int batch = absl::GetFlag(FLAGS_batch);
  const std::vector<std::string> numbers = absl::GetFlag(FLAGS_threads);
  std::vector<Measured> all(numbers.size());
  for (size_t i = 0; i < all.size(); ++i) {
    if (batch < 1 || !absl::SimpleAtoi(numbers[i], &all[i].threads) || all[i].threads < 1) {
      return absl::InvalidArgumentError("--batch and --threads must be positive numbers");
    }
  }
  ASSIGN_OR_RETURN(const BenchModel model, FindModel("cifar_net"));
  const std::vector<Tensor> data = BenchData(model, batch);
  const float* const images = data[0].data<float>();
  const int32_t* const labels = data[1].data<int32_t>();
  std::vector<std::unique_ptr<Cifar10Chain>> chains;
  std::vector<Side> sides;
  for (Measured& measured : all) {
    omp_set_num_threads(measured.threads);
    Cifar10Chain& chain = *chains.emplace_back(std::make_unique<Cifar10Chain>(batch, /*seed=*/1));
    measured.first_loss = chain.Step(images, labels, kLearningRate);
    const auto step = [&measured, &chain, images, labels] {
      omp_set_num_threads(measured.threads);
      measured.last_loss = chain.Step(images, labels, kLearningRate);
      return absl::OkStatus();
    };
    sides.push_back({.name = absl::StrCat(measured.threads, measured.threads == 1 ? " thread" : " threads"),
                     .step = step,
                     .items_per_step = static_cast<double>(batch)});
  }
  RETURN_IF_ERROR(RunPaired(sides, absl::GetFlag(FLAGS_rounds), absl::GetFlag(FLAGS_seconds)));
  for (size_t i = 0; i < all.size() && absl::GetFlag(FLAGS_profile); ++i) {
    omp_set_num_threads(all[i].threads);
    all[i].parts = chains[i]->Profile(images, labels, kLearningRate, 20);
  }
  absl::GetFlag(FLAGS_json) ? PrintJson(batch, all, sides) : PrintTables(batch, all, sides);
  return absl::OkStatus();
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  return belfry::benchmarks::RunBenchmark(
      argc, argv, "Measures the CIFAR-10 tutorial network as a chain of bare oneDNN primitives.",
      belfry::benchmarks::Run);
}
