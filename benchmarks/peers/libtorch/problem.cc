#include "problem.h"

#include <cstdint>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

namespace peer {

Tensors ReadProblem(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (!file || bytes.size() < 8) throw std::runtime_error("cannot read " + path);
  uint64_t header_bytes = 0;
  for (int i = 7; i >= 0; --i) header_bytes = header_bytes << 8 | static_cast<unsigned char>(bytes[i]);
  if (header_bytes > bytes.size() - 8) throw std::runtime_error(path + " was cut short");
  const auto header = nlohmann::json::parse(bytes.substr(8, header_bytes));
  const std::map<std::string, torch::Dtype> types = {
      {"F32", torch::kFloat32}, {"I32", torch::kInt32}, {"I64", torch::kInt64}};
  Tensors tensors;
  for (const auto& [name, info] : header.items()) {
    if (name == "__metadata__") continue;
    const size_t begin = info.at("data_offsets").at(0).get<size_t>();
    tensors[name] =
        torch::from_blob(bytes.data() + 8 + header_bytes + begin, info.at("shape").get<std::vector<int64_t>>(),
                         types.at(info.at("dtype").get<std::string>()))
            .clone();
  }
  return tensors;
}

torch::Tensor ToImages(const torch::Tensor& tensor) {
  if (tensor.dim() != 4) return tensor;
  return tensor.permute({0, 3, 1, 2}).contiguous(torch::MemoryFormat::ChannelsLast);
}

torch::Tensor ToVariable(const torch::Tensor& tensor) {
  if (tensor.dim() == 4) return tensor.permute({3, 2, 0, 1}).contiguous(torch::MemoryFormat::ChannelsLast);
  return tensor.dim() == 2 ? tensor.t().contiguous() : tensor;
}

}  // namespace peer
