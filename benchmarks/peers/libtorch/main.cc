// The benchmark models in libtorch, as one side of a comparison; see ../README.md for the protocol.
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>

#include <chrono>
#include <exception>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "networks.h"

namespace peer {
namespace {

constexpr int kComparedLosses = 5, kWarmUpSteps = 5;
constexpr double kLearningRate = 0.01, kMomentum = 0.9;

// A line of this process's /proc status, in KiB: "RssAnon:" and "RssFile:" are resident now, "VmHWM:" is the peak.
int64_t Memory(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    int64_t kibibytes = 0;
    if (word == key && file >> kibibytes) return kibibytes;
  }
  return 0;
}

class Trainer {
 public:
  Trainer(const std::string& model, const std::string& problem, bool bfloat16)
      : model_(model), bfloat16_(bfloat16), optimizer_({torch::zeros({1})}, torch::optim::SGDOptions(0)) {
    const Tensors tensors = ReadProblem(problem);
    inputs_ = ToImages(tensors.at("inputs"));
    labels_ = model == "s5" ? tensors.at("labels") : tensors.at("labels").to(torch::kInt64);
    std::vector<torch::Tensor> trained;
    for (const auto& [name, tensor] : tensors) {
      if (IsStatistic(name)) variables_[name] = tensor;
      if (IsTrained(name)) trained.push_back(variables_[name] = ToVariable(tensor).set_requires_grad(true));
    }
    optimizer_ =
        torch::optim::SGD(trained, torch::optim::SGDOptions(kLearningRate).momentum(model == "s5" ? 0 : kMomentum));
  }

  torch::Tensor Step() {
    optimizer_.zero_grad();
    at::autocast::set_autocast_enabled(at::kCPU, bfloat16_);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    torch::Tensor loss = Loss(model_, variables_, inputs_, labels_);
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    loss.backward();
    optimizer_.step();
    return loss;
  }

 private:
  const std::string model_;
  const bool bfloat16_;
  Tensors variables_;
  torch::Tensor inputs_, labels_;
  torch::optim::SGD optimizer_;
};

double Rate(Trainer& trainer, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  double elapsed = 0;
  int64_t steps = 0, batch = 1;
  while (elapsed < seconds) {
    for (int64_t i = 0; i < batch; ++i) trainer.Step();
    steps += batch;
    elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    if (elapsed < seconds / 16) batch *= 2;
  }
  return static_cast<double>(steps) / elapsed;
}

void Serve(const std::string& model, const std::string& problem, bool bfloat16) {
  const int64_t before = Memory("RssAnon:");
  Trainer trainer(model, problem, bfloat16);
  std::vector<double> losses;
  for (int i = 0; i < kComparedLosses; ++i) losses.push_back(trainer.Step().item<double>());
  for (int i = 0; i < kWarmUpSteps; ++i) trainer.Step();
  std::ofstream("/proc/self/clear_refs") << "5";
  const nlohmann::json ready = {{"losses", losses}, {"version", std::string("libtorch ") + TORCH_VERSION}};
  std::cout << ready.dump() << std::endl;
  for (std::string word; std::cin >> word && word != "quit";) {
    double seconds = 0;
    if (word != "go" || !(std::cin >> seconds)) throw std::runtime_error("expected \"go SECONDS\" or \"quit\"");
    const double rate = Rate(trainer, seconds);
    const int64_t peak = Memory("VmHWM:") - Memory("RssFile:") - before;
    const nlohmann::json answer = {{"steps_per_second", rate}, {"peak_bytes", peak * 1024}};
    std::cout << answer.dump() << std::endl;
  }
}

// The value of --name=value, or `fallback` if the flag is missing.
std::string Flag(int argc, char** argv, const std::string& name, const std::string& fallback) {
  const std::string prefix = "--" + name + "=";
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]).rfind(prefix, 0) == 0) return std::string(argv[i]).substr(prefix.size());
  }
  return fallback;
}

}  // namespace
}  // namespace peer

int main(int argc, char** argv) try {
  at::set_num_threads(std::stoi(peer::Flag(argc, argv, "threads", "1")));
  at::set_num_interop_threads(1);
  peer::Serve(peer::Flag(argc, argv, "model", "cifar_net"), peer::Flag(argc, argv, "problem", ""),
              peer::Flag(argc, argv, "dtype", "float32") == "bfloat16");
  return 0;
} catch (const std::exception& error) {
  std::cerr << "Error: " << error.what() << "\n";
  return 1;
}
