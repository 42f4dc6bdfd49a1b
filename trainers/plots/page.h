// A self-contained HTML page with charts and a table.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace belfry::trainers {

// Chart.js (MIT license) draws the charts; it is part of the page, which therefore needs no network. `data` becomes
// <script id="data">:
//   title, and notes: the heading, and lines of text below it (optional)
//   runs: [{name, last_step}], which the reader can hide; last_step is optional, null shows as "none"
//   table: by heading, an array with a cell or null for each run
//   charts: [{title, x, y, datasets}]; x, y and datasets are options of Chart.js. x is optional: steps. A dataset's
//     `run` (index; none: grey) and `dash` choose how its line looks, `fill` makes it an area, and `faint` a pale line
//     without an entry in the legend. A point is [x, y, text of the tooltip], in a faint line [x, y]; y is null in a
//     gap.
std::string Page(const nlohmann::ordered_json& data);

}  // namespace belfry::trainers
