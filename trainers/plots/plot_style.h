// What a page of PlotPage has inside beside its content. Internal to plot_html.cc.
#pragma once

namespace belfry::trainers {

// Colours there are for runs and for parts of a whole; after the last the first comes again.
inline constexpr int kPlotColours = 8;

// The style sheet, without the rules that depend on the runs.
extern const char kPlotStyle[];

// Shows the values under the pointer. It reads what a chart's <script class="data"> holds: the step at the left and at
// the right end of the plot, and for each line the number of its run, its label, its steps and its values.
extern const char kPlotScript[];

}  // namespace belfry::trainers
