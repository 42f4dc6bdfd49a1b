#include "trainers/plots/plot_style.h"

namespace belfry::trainers {

const char kPlotStyle[] = R"css(
:root { color-scheme: light dark; --page: #fbfbfa; --card: #ffffff; --text: #1c1c1a; --faint: #6c6c68; --line: #e2e1dc;
  --c0: #1f6fd1; --c1: #d2570a; --c2: #178052; --c3: #b52e68; --c4: #7452c4; --c5: #8f7000; --c6: #0a8291; --c7: #62625e; }
@media (prefers-color-scheme: dark) {
  :root { --page: #161615; --card: #1f1f1d; --text: #ecebe6; --faint: #a3a29b; --line: #3a3935;
    --c0: #6aa9ff; --c1: #ff9a52; --c2: #52cf97; --c3: #ff82b0; --c4: #b59eff; --c5: #dfc04e; --c6: #52d0df; --c7: #b9b8b2; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 1500px; background: var(--page); color: var(--text);
  font: 15px/1.45 system-ui, "DejaVu Sans", sans-serif; }
h1 { margin: 0 0 1rem; font-size: 1.3rem; font-weight: 600; }
.pick { position: absolute; opacity: 0; }
.pick + label { display: inline-block; margin: 0 .5rem .5rem 0; padding: .15rem .6rem; border: 1px solid var(--line);
  border-radius: 1rem; background: var(--card); cursor: pointer; }
.pick + label::before { content: ""; display: inline-block; width: .7em; height: .7em; margin-right: .45em;
  border-radius: 50%; background: var(--c); }
.pick:not(:checked) + label { opacity: .5; text-decoration: line-through; }
.pick:focus-visible + label { outline: 2px solid var(--c); }
.table { overflow-x: auto; margin: .5rem 0 1.25rem; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .55rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { color: var(--faint); font-weight: 500; }
th:first-child, td:first-child { text-align: left; }
td small { color: var(--faint); }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 560px), 1fr)); gap: 1rem; }
figure { position: relative; margin: 0; padding: .8rem 1rem; border: 1px solid var(--line); border-radius: .5rem;
  background: var(--card); }
figcaption { display: inline-block; margin-right: 1rem; font-weight: 600; }
figure svg { display: block; width: 100%; height: auto; }
.key { display: inline-block; margin-right: .9rem; color: var(--faint); font-size: .85rem; }
.key svg { display: inline-block; width: 28px; height: 8px; margin-right: .3rem; --c: var(--faint); }
.key i { display: inline-block; width: .7em; height: .7em; margin-right: .35em; background: var(--c); }
.axis-pick { position: absolute; opacity: 0; }
.axis-pick + label { margin-right: .6rem; color: var(--faint); font-size: .85rem; cursor: pointer; }
.axis-pick:checked + label { color: var(--text); text-decoration: underline; }
.axis-pick:focus-visible + label { outline: 2px solid var(--c0); }
.axis-pick.linear:checked ~ .logarithmic, .axis-pick.logarithmic:checked ~ .linear { display: none; }
.grid, .axis { stroke: var(--line); }
.axis { stroke: var(--faint); }
.tick { fill: var(--faint); font-size: 12px; }
.line polyline, .line line { fill: none; stroke: var(--c); stroke-linejoin: round; }
.raw { stroke-width: 1; opacity: .3; }
.smooth, .line line { stroke-width: 1.8; }
.line circle { fill: var(--c); }
.dash1 .smooth, .dash1 line { stroke-dasharray: 7 4; }
.dash2 .smooth, .dash2 line { stroke-dasharray: 2 3; }
.dash3 .smooth, .dash3 line { stroke-dasharray: 9 3 2 3; }
.shares path { fill: var(--c); opacity: .85; shape-rendering: crispEdges; }
.cursor { stroke: var(--faint); stroke-dasharray: 3 3; }
.values { position: absolute; z-index: 1; padding: .4rem .6rem; border: 1px solid var(--line); border-radius: .35rem;
  background: var(--page); font-size: .85rem; white-space: nowrap; pointer-events: none; }
.values i { display: inline-block; width: .6em; height: .6em; margin-right: .4em; border-radius: 50%;
  background: var(--c); }
)css";

const char kPlotScript[] = R"js(//<![CDATA[
'use strict';
// The index of the step that is nearest to `step`; steps ascend.
function nearest(steps, step) {
  let low = 0, high = steps.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle] < step) low = middle + 1; else high = middle;
  }
  return low > 0 && step - steps[low - 1] < steps[low] - step ? low - 1 : low;
}

for (const figure of document.querySelectorAll('figure')) {
  const source = figure.querySelector('script.data');
  if (!source) continue;
  const data = JSON.parse(source.textContent);
  const values = document.createElement('div');
  values.className = 'values';
  values.hidden = true;
  figure.append(values);
  for (const svg of figure.querySelectorAll('.plot > svg')) {
    const cursor = document.createElementNS('http://www.w3.org/2000/svg', 'line');
    cursor.setAttribute('class', 'cursor');
    cursor.setAttribute('y1', data.top);
    cursor.setAttribute('y2', data.bottom);
    cursor.style.display = 'none';
    svg.append(cursor);
    svg.addEventListener('pointerleave', () => { values.hidden = true; cursor.style.display = 'none'; });
    svg.addEventListener('pointermove', event => {
      const box = svg.getBoundingClientRect();
      const share = ((event.clientX - box.left) / box.width * svg.viewBox.baseVal.width - data.left) /
                    (data.right - data.left);
      const step = data.first + share * (data.last - data.first);
      const rows = [];
      let shown = null;
      for (const line of data.lines) {
        const pick = document.getElementById('run' + line.run);
        if (line.steps.length === 0 || pick && !pick.checked) continue;
        const i = nearest(line.steps, step);
        if (shown === null || Math.abs(line.steps[i] - step) < Math.abs(shown - step)) shown = line.steps[i];
        rows.push([line, i]);
      }
      if (shown === null) return;
      values.replaceChildren('step ' + shown);
      for (const [line, i] of rows) {
        const row = document.createElement('div'), mark = document.createElement('i');
        mark.className = line.colour;
        const text = line.values[i] === null ? 'no value' : line.values[i];
        const at = line.steps[i] === shown ? '' : ' (step ' + line.steps[i] + ')';
        row.append(mark, line.label + ': ' + text + (data.unit || '') + at);
        values.append(row);
      }
      const x = data.left + (shown - data.first) / (data.last - data.first) * (data.right - data.left);
      cursor.setAttribute('x1', x);
      cursor.setAttribute('x2', x);
      cursor.style.display = '';
      values.hidden = false;
      const frame = figure.getBoundingClientRect();
      const left = event.clientX - frame.left + 16;
      const flip = left + values.offsetWidth > frame.width;
      values.style.left = (flip ? Math.max(0, left - 32 - values.offsetWidth) : left) + 'px';
      values.style.top = (box.top - frame.top + 12) + 'px';
    });
  }
}
//]]>)js";

}  // namespace belfry::trainers
