// Results of a benchmark, printed as a table and saved as JSON and CSV.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace belfry::benchmarks {

class Report {
 public:
  // `name` is used for the files' names; `title` says what is measured, in which units.
  Report(std::string name, std::string title) : name_(std::move(name)), title_(std::move(title)) {}

  // Adds a row of values, numbers or text, by column. Columns keep the order of their first use.
  void Add(nlohmann::ordered_json row) { rows_.push_back(std::move(row)); }
  // Adds a line that ./dev bench repeats at the end of all benchmarks.
  void Summarize(std::string line) { summary_.push_back(std::move(line)); }

  // The title, the machine and the rows. Missing values print as "-", those of AddSpread as "median [min .. max]". A
  // table of more than 110 columns of text is printed in parts.
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

// Adds the statistics of repeated measurements: <key>, their median, <key>_min and <key>_max.
void AddSpread(nlohmann::ordered_json& row, const std::string& key, const std::vector<double>& values);

// "0.0123", "1.5", "1234", "2.34e+07": three significant digits, or all digits before the point.
std::string ShortNumber(double value);

}  // namespace belfry::benchmarks
