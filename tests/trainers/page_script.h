// The script of a page with charts (trainers/plots/page.html), run by Node.js with stand-ins for the browser and for
// Chart.js.
#pragma once

#include <cstdio>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/main/testing.h"

namespace belfry::trainers {

// False without Node.js, where a test of the script is skipped with this as the reason.
inline bool HasNode() { return *BELFRY_NODE != '\0'; }
inline constexpr char kNoNode[] = "Node.js, which runs the script of a page, is not installed";

// {"charts": the charts of the page, "table": {heading: cells}, "drawn": the options that Chart.js got for each chart,
// "rows": the texts of the table's cells, row by row}.
inline nlohmann::ordered_json RunScript(const std::string& page) {
  const auto between = [&](const std::string& begin) {
    const size_t from = page.rfind(begin) + begin.size();
    return page.substr(from, page.find("</script>", from) - from);
  };
  const std::string data = between("<script type=\"application/json\" id=\"data\">");
  const std::string browser = R"js(
    const make = name => ({name, style: {}, children: [], appendChild(child) { this.children.push(child); return child; },
                           append() {}});
    const byId = {data: {textContent: DATA}};
    const document = {body: {}, createElement: make, querySelector: make, getElementById: id => byId[id] ??= make(id)};
    const getComputedStyle = () => ({color: 'black'});
    class Chart {
      static drawn = [];
      static instances = {};
      static defaults = {datasets: {line: {}}, scale: {title: {}}};
      constructor(canvas, options) { Chart.drawn.push(options); }
    })js";
  const std::string print = R"js(
    const rows = byId.table.children[0].children.map(row => row.children.map(cell => cell.textContent));
    console.log(JSON.stringify({charts: page.charts, table: Object.fromEntries(table), drawn: Chart.drawn, rows}));)js";
  const TemporaryFolder folder;
  folder.Write("page.js", "const DATA = " + nlohmann::json(data).dump() + ";" + browser + "\n(() => {" +
                              between("<script>") + print + "})();\n");
  std::FILE* const node = ::popen((std::string(BELFRY_NODE) + " " + folder / "page.js").c_str(), "r");
  std::string printed;
  for (int c = std::fgetc(node); c != EOF; c = std::fgetc(node)) printed.push_back(static_cast<char>(c));
  EXPECT_EQ(::pclose(node), 0);
  return nlohmann::ordered_json::parse(printed, nullptr, /*allow_exceptions=*/false);
}

}  // namespace belfry::trainers
