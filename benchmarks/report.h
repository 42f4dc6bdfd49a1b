// What a benchmark found: printed as a table, kept as JSON and CSV.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace belfry::benchmarks {

class Report {
 public:
  // `name`: of the files. `title`: what is measured, in what units.
  Report(std::string name, std::string title) : name_(std::move(name)), title_(std::move(title)) {}

  // A row: values by column, numbers or text. Columns keep the order in which they first come.
  void Add(nlohmann::ordered_json row) { rows_.push_back(std::move(row)); }
  // A line that ./dev bench shows again at the end of all benchmarks.
  void Summarize(std::string line) { summary_.push_back(std::move(line)); }

  // Title, machine, and the rows; a value that a row lacks is "-".
  std::string Table() const;
  std::string Csv() const;
  nlohmann::ordered_json Json() const;
  // Prints the table and the summary and, unless `directory` is empty, writes <directory>/<name>.json and .csv. Errors:
  // the directory or a file cannot be written.
  absl::Status Finish(const std::string& directory) const;

 private:
  std::vector<std::string> Columns() const;

  std::string name_, title_;
  std::vector<nlohmann::ordered_json> rows_;
  std::vector<std::string> summary_;
};

// Adds what a column of repeated measurements is told by: <key>, their median, <key>_min and <key>_max.
void AddSpread(nlohmann::ordered_json& row, const std::string& key, const std::vector<double>& values);

// "0.0123", "1.5", "1234", "2.34e+07": three significant digits, or all before the point.
std::string ShortNumber(double value);

}  // namespace belfry::benchmarks
