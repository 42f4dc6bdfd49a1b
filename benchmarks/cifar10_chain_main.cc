// Benchmark of the CIFAR-10 tutorial network as bare oneDNN primitives: images per second, and a profile.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "benchmarks/cifar10_chain.h"

ABSL_FLAG(int, batch, 128, "Images per step.");
ABSL_FLAG(std::vector<std::string>, threads, std::vector<std::string>({"1", "2"}),
          "Numbers of OpenMP threads to measure.");
ABSL_FLAG(int, rounds, 5, "Measurements of each number of threads, taken in turn.");
ABSL_FLAG(double, seconds, 1, "Length of a measurement in seconds.");
ABSL_FLAG(bool, profile, true, "Also time each primitive by itself.");
ABSL_FLAG(bool, json, false, "Print JSON instead of tables.");

namespace belfry::benchmarks {
namespace {

constexpr float kLearningRate = 0.01f;

struct Data {
  std::vector<float> images;
  std::vector<int32_t> labels;
};

Data Synthetic(int64_t batch) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Data data{std::vector<float>(batch * Cifar10Chain::kSide * Cifar10Chain::kSide * Cifar10Chain::kChannels),
            std::vector<int32_t>(batch)};
  for (float& value : data.images) value = normal(random);
  for (int32_t& label : data.labels) label = static_cast<int32_t>(random() % Cifar10Chain::kClasses);
  return data;
}

struct Measured {
  int threads;
  std::vector<double> images_per_second;  // one per round
  float first_loss = 0, last_loss = 0;
  std::vector<Cifar10Chain::Part> parts;
};

double Measure(Cifar10Chain& chain, const Data& data, double seconds, float& loss) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  std::chrono::duration<double> taken{};
  int steps = 0;
  for (; taken.count() < seconds; taken = Clock::now() - start, ++steps) {
    loss = chain.Step(data.images.data(), data.labels.data(), kLearningRate);
  }
  return static_cast<double>(data.labels.size()) * steps / taken.count();
}

void PrintTables(int batch, const std::vector<Measured>& all) {
  for (const Measured& m : all) {
    std::vector<double> sorted = m.images_per_second;
    std::sort(sorted.begin(), sorted.end());
    std::printf("batch %d, %d thread%s: %.0f images/s best, %.0f median, %.0f worst of %zu; loss %.4f -> %.4f\n", batch,
                m.threads, m.threads == 1 ? "" : "s", sorted.back(), sorted[sorted.size() / 2], sorted.front(),
                sorted.size(), m.first_loss, m.last_loss);
  }
  for (const Measured& m : all) {
    if (m.parts.empty()) continue;
    double total = 0;
    for (const auto& part : m.parts) total += part.milliseconds;
    std::printf("\n%d thread%s: shortest times, %.2f ms together\n", m.threads, m.threads == 1 ? "" : "s", total);
    for (const auto& part : m.parts) {
      std::printf("%9.3f ms %5.1f %% ", part.milliseconds, 100 * part.milliseconds / total);
      if (part.flops > 0) {
        std::printf("%7.1f GFLOP/s", part.flops / part.milliseconds * 1e-6);
      } else {
        std::printf("%15s", "");
      }
      std::printf("  %-28s %s\n", part.name.c_str(), part.implementation.c_str());
    }
  }
}

void PrintJson(int batch, const std::vector<Measured>& all) {
  nlohmann::json out;
  for (const Measured& m : all) {
    nlohmann::json parts = nlohmann::json::array();
    for (const auto& part : m.parts) {
      parts.push_back({{"name", part.name},
                       {"implementation", part.implementation},
                       {"flops", part.flops},
                       {"milliseconds", part.milliseconds}});
    }
    out.push_back({{"benchmark", "cifar10_chain"},
                   {"batch", batch},
                   {"threads", m.threads},
                   {"images_per_second", m.images_per_second},
                   {"first_loss", m.first_loss},
                   {"last_loss", m.last_loss},
                   {"parts", parts}});
  }
  std::printf("%s\n", out.dump(2).c_str());
}

int Main() {
  const int batch = absl::GetFlag(FLAGS_batch);
  const Data data = Synthetic(batch);
  std::vector<Measured> all;
  std::vector<std::unique_ptr<Cifar10Chain>> chains;
  for (const std::string& text : absl::GetFlag(FLAGS_threads)) {
    int threads = 0;
    if (batch < 1 || !absl::SimpleAtoi(text, &threads) || threads < 1) {
      std::fprintf(stderr, "--batch and --threads must be positive numbers\n");
      return 2;
    }
    omp_set_num_threads(threads);
    all.push_back({threads});
    chains.push_back(std::make_unique<Cifar10Chain>(batch, /*seed=*/1));
    all.back().first_loss = chains.back()->Step(data.images.data(), data.labels.data(), kLearningRate);
  }
  for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
    for (size_t i = 0; i < all.size(); ++i) {
      omp_set_num_threads(all[i].threads);
      all[i].images_per_second.push_back(Measure(*chains[i], data, absl::GetFlag(FLAGS_seconds), all[i].last_loss));
    }
  }
  for (size_t i = 0; i < all.size() && absl::GetFlag(FLAGS_profile); ++i) {
    omp_set_num_threads(all[i].threads);
    all[i].parts = chains[i]->Profile(data.images.data(), data.labels.data(), kLearningRate, 20);
  }
  absl::GetFlag(FLAGS_json) ? PrintJson(batch, all) : PrintTables(batch, all);
  return 0;
}

}  // namespace
}  // namespace belfry::benchmarks

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Measures the CIFAR-10 tutorial network as a chain of bare oneDNN primitives.");
  absl::ParseCommandLine(argc, argv);
  return belfry::benchmarks::Main();
}
