#include "sim/report/html.h"

#include <fmt/format.h>

#include "programs/output/terminal.h"

namespace batchflow::sim {

namespace {

// Colours after Okabe and Ito, which colour-blind people can tell apart. Lines also differ in their
// dashes, and a line separates areas that touch.
const char* const kReportStyle = R"(
:root{--paper:#ffffff;--ink:#1b1f24;--soft:#5b6470;--line:#d5dae0;--faint:#f3f5f7;--mark:#0b6e4f;
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#cc79a7;--c4:#e69f00;--c5:#56b4e9;--c6:#1b1f24;--c7:#8c6d1f;
--train:#009e73;--storage:#0072b2;--drive:#56b4e9;--network:#cc79a7;--cores:#e69f00;
--preparation:#d55e00;--delivery:#f0e442;--other:#8a8f98;--idle:#d5dae0}
@media (prefers-color-scheme:dark){:root{--paper:#14171a;--ink:#e7eaee;--soft:#9aa4b0;--line:#363d45;
--faint:#1e2327;--mark:#4fd0a5;--c0:#4aa8e0;--c1:#ff8a3d;--c2:#2fc79a;--c3:#e29cc3;--c4:#f2b632;
--c5:#8bd0f5;--c6:#e7eaee;--c7:#c9a85a;--train:#1f9d78;--storage:#3a93cf;--drive:#8bd0f5;
--network:#d98bb6;--cores:#e0a52a;--preparation:#e8702a;--delivery:#e8dc4a;--other:#7d848d;--idle:#3f464e}}
@media print{:root{--paper:#ffffff;--ink:#000000;--soft:#444444;--line:#bbbbbb;--faint:#ffffff;--mark:#0b6e4f;
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#cc79a7;--c4:#e69f00;--c5:#56b4e9;--c6:#000000;--c7:#8c6d1f;
--train:#009e73;--storage:#0072b2;--drive:#56b4e9;--network:#cc79a7;--cores:#e69f00;
--preparation:#d55e00;--delivery:#f0e442;--other:#8a8f98;--idle:#d5dae0}
figure,tr{break-inside:avoid}h2,h3{break-after:avoid}.scroll{overflow:visible}table{font-size:.68rem}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.2rem 1rem 3rem;max-width:1440px;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif}
h1{font-size:1.5rem;margin:.2rem 0}h2{font-size:1.15rem;margin:2rem 0 .3rem;border-bottom:1px solid var(--line)}
h3{font-size:.95rem;margin:1.1rem 0 .2rem}
p.answer{color:var(--ink);font-weight:600}
p{margin:.3rem 0 .6rem;color:var(--soft);max-width:75ch}
small{color:var(--soft);font-size:.8em;white-space:nowrap}td small{display:block;line-height:1.1}
.scroll{overflow-x:auto;margin:.4rem 0}
table{border-collapse:collapse;font-size:.86rem;font-variant-numeric:tabular-nums}
th,td{padding:.28rem .6rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th{color:var(--soft);font-weight:600;background:var(--faint)}th[title]{text-decoration:underline dotted}
.text{text-align:left}td.best{font-weight:700;color:var(--mark)}td.best::before{content:"\2605\00a0";font-size:.75em}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,370px),1fr));gap:.8rem 1.4rem}
figure{margin:.4rem 0;min-width:0;max-width:640px}figcaption{font-weight:600;font-size:.9rem;overflow-wrap:anywhere}
figcaption small{font-weight:400;white-space:normal}
figcaption button{font:inherit;font-size:.7rem;font-weight:400;margin-left:.5rem;padding:0;border:0;background:none;
color:var(--soft);text-decoration:underline;cursor:pointer}@media print{figcaption button{display:none}}
.legend{display:flex;flex-wrap:wrap;gap:.1rem .9rem;font-size:.8rem;color:var(--soft);margin:.15rem 0}
.legend span{overflow-wrap:anywhere}.legend svg{width:22px;height:10px;vertical-align:middle;margin-right:.3rem}
svg.chart{display:block;width:100%;height:auto;touch-action:pan-y}
svg text{font-size:11px;fill:var(--soft);font-family:inherit}svg .on{fill:var(--ink)}
.rule{stroke:var(--line);stroke-width:1}.axis{stroke:var(--soft);stroke-width:1}.limit{stroke:var(--soft);stroke-dasharray:2 3}
.series{fill:none;stroke-width:1.8;stroke-linejoin:round}.area{stroke:var(--paper);stroke-width:.6}
.cursor{stroke:var(--ink);stroke-width:1;stroke-dasharray:3 2;visibility:hidden}
#tip{position:fixed;z-index:9;pointer-events:none;visibility:hidden;background:var(--paper);color:var(--ink);
border:1px solid var(--line);border-radius:4px;padding:.3rem .5rem;font-size:.78rem;line-height:1.35;
box-shadow:0 2px 8px rgba(0,0,0,.25);white-space:pre;max-width:92vw;overflow:hidden}
.heat{display:block;margin:-.28rem -.6rem;padding:.28rem .6rem}
.parts{display:block;width:150px;height:13px}
)";

const char* const kReportScript = R"SCRIPT((function () {
  var tip = document.createElement("div");
  tip.id = "tip";
  document.body.appendChild(tip);
  function short(v) {
    var units = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
    for (var i = 0; i < units.length; i++) {
      if (Math.abs(v) >= units[i][0]) return (v / units[i][0]).toPrecision(3) + " " + units[i][1];
    }
    return Number(v.toPrecision(3)) + " ";
  }
  function time(s) {
    if (s < 60) return Number(s.toPrecision(3)) + " s";
    if (s < 3600) return Math.floor(s / 60) + " min " + Math.round(s % 60) + " s";
    return (s / 3600).toFixed(2) + " h";
  }
  function say(v, kind) {
    if (kind === "ratio") return (100 * v).toFixed(1) + " %";
    if (kind === "seconds") return time(v);
    if (kind === "log-seconds") return time(Math.pow(10, v));
    return short(v) + (kind === "bytes" ? "B" : kind === "rate" ? "B/s" : "");
  }
  function points(shape) {
    return shape.getAttribute("points").trim().split(" ").map(function (p) {
      return p.split(",").map(Number);
    });
  }
  function nearest(list, x) {
    var best = 0;
    for (var i = 1; i < list.length; i++) {
      if (Math.abs(list[i][0] - x) < Math.abs(list[best][0] - x)) best = i;
    }
    return best;
  }
  document.querySelectorAll("svg.chart[data-plot]").forEach(function (svg) {
    var plot = svg.dataset.plot.split(" ").map(Number);  // left, top, right, bottom
    var x = svg.dataset.x.split(" ").map(Number), top = Number(svg.dataset.top);
    var cursor = svg.querySelector(".cursor");
    var least = Number(svg.dataset.least);
    function value(from, to) {
      var share = (from - to) / (plot[3] - plot[1]);
      return least > 0 ? least * Math.pow(top / least, share) : top * share;
    }
    var at = svg.dataset.at ? svg.dataset.at.split(" ").map(Number) : [];
    function move(event) {
      var box = svg.getBoundingClientRect();
      var over = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
      if (over < plot[0] || over > plot[2]) return hide();
      var lines = [], where = over;
      svg.querySelectorAll("[data-name]").forEach(function (shape) {
        var list = points(shape), area = shape.tagName === "polygon";
        var half = area ? list.length / 2 : list.length;
        var i = nearest(list.slice(0, half), over);
        if (Math.abs(list[i][0] - over) > 20) return;
        where = list[i][0];
        var low = area ? list[list.length - 1 - i][1] : plot[3];
        var v = value(low, list[i][1]);
        if (!area || v > 0) lines.push(shape.dataset.name + ": " + say(v, svg.dataset.kind));
      });
      cursor.setAttribute("x1", where);
      cursor.setAttribute("x2", where);
      cursor.style.visibility = "visible";
      var t = x[0] + (where - plot[0]) / (plot[2] - plot[0]) * (x[1] - x[0]);
      var labels = svg.dataset.labels ? svg.dataset.labels.split("|") : null;
      var head = labels ? svg.dataset.xname + ": " + labels[nearest(at.map(function (v) { return [v]; }), t)]
        : say(t, svg.dataset.xkind);
      tip.textContent = head + "\n" + lines.reverse().join("\n");
      tip.style.visibility = "visible";
      var left = event.clientX + 14;
      if (left + tip.offsetWidth > window.innerWidth) left = event.clientX - tip.offsetWidth - 14;
      tip.style.left = Math.max(4, left) + "px";
      tip.style.top = Math.max(4, Math.min(event.clientY + 12, window.innerHeight - tip.offsetHeight - 4)) + "px";
    }
    function hide() {
      tip.style.visibility = cursor.style.visibility = "hidden";
    }
    svg.addEventListener("pointermove", move);
    svg.addEventListener("pointerdown", move);
    svg.addEventListener("pointerleave", hide);
  });
  // A figure as a file for a paper: its drawing with the legend below, in the light colours and
  // without a style sheet, or its numbers.
  function save(name, kind, text) {
    var link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], {type: kind}));
    link.download = name;
    link.click();
    setTimeout(function () { URL.revokeObjectURL(link.href); }, 1000);
  }
  var light = {}, root = document.styleSheets[0].cssRules[0].style;
  for (var i = 0; i < root.length; i++) light[root[i]] = root.getPropertyValue(root[i]).trim();
  var drawn = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "font-size",
               "text-anchor"];
  function plain(from, to) {
    var style = getComputedStyle(from);
    drawn.forEach(function (name) {
      var value = style.getPropertyValue(name);
      if (value && value !== "none" || name === "fill") to.setAttribute(name, value);
    });
    to.removeAttribute("class");
    for (var i = 0; i < from.children.length; i++) plain(from.children[i], to.children[i]);
  }
  function drawing(figure) {
    var svg = figure.querySelector("svg.chart"), style = document.documentElement.style;
    var copy = svg.cloneNode(true), box = svg.viewBox.baseVal, below = box.height + 6;
    Object.keys(light).forEach(function (name) { style.setProperty(name, light[name]); });
    plain(svg, copy);
    var lines = copy.querySelectorAll("line");
    if (svg.querySelector(".cursor")) lines[lines.length - 1].remove();
    figure.querySelectorAll(".legend span").forEach(function (entry) {
      var mark = entry.querySelector("svg").cloneNode(true), text = document.createElementNS(copy.namespaceURI, "text");
      plain(entry.querySelector("svg"), mark);
      mark.setAttribute("x", 4);
      mark.setAttribute("y", below);
      mark.setAttribute("width", 22);
      mark.setAttribute("height", 10);
      text.setAttribute("x", 32);
      text.setAttribute("y", below + 9);
      text.setAttribute("font-size", "11px");
      text.setAttribute("fill", light["--ink"]);
      text.textContent = entry.textContent;
      copy.appendChild(mark);
      copy.appendChild(text);
      below += 15;
    });
    Object.keys(light).forEach(function (name) { style.removeProperty(name); });
    Object.keys(copy.dataset).forEach(function (name) { delete copy.dataset[name]; });
    copy.setAttribute("xmlns", copy.namespaceURI);
    copy.setAttribute("viewBox", "0 0 " + box.width + " " + below);
    copy.setAttribute("width", box.width);
    copy.setAttribute("height", below);
    copy.setAttribute("font-family", "sans-serif");
    return new XMLSerializer().serializeToString(copy);
  }
  function button(figure, name, act) {
    var caption = figure.querySelector("figcaption"), one = document.createElement("button");
    var title = caption.firstChild.textContent.trim().replace(/[^A-Za-z0-9]+/g, "-").toLowerCase();
    one.type = "button";
    one.textContent = name;
    one.title = "Save this figure as " + name;
    one.addEventListener("click", function () { act(title); });
    caption.appendChild(one);
  }
  document.querySelectorAll("figure[data-csv]").forEach(function (figure) {
    if (figure.querySelector("svg.chart")) {
      button(figure, "SVG", function (title) { save(title + ".svg", "image/svg+xml", drawing(figure)); });
    }
    button(figure, "CSV", function (title) { save(title + ".csv", "text/csv", figure.dataset.csv); });
  });
})();
)SCRIPT";

}  // namespace

std::string html_page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta name=\"generator\" content=\"batchflow-sim {}\"/>\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n{}\n"
      "<script>//<![CDATA[\n{}//]]></script>\n</body>\n</html>\n",
      BATCHFLOW_VERSION, escaped(title), kReportStyle, body, kReportScript);
}

Cell text_cell(std::string text) {
  return {std::move(text), "", ""};
}

Cell figure_cell(std::string text, std::string field, double value) {
  return {std::move(text), std::move(field), fmt::format("{}", value)};
}

std::string html_table(const std::vector<Column>& columns,
                       const std::vector<std::vector<Cell>>& rows) {
  std::string text = "<div class=\"scroll\"><table><thead><tr>";
  for (const Column& column : columns) {
    text +=
        fmt::format("<th{}{}>{}</th>", column.is_text ? " class=\"text\"" : "",
                    column.help.empty() ? "" : fmt::format(" title=\"{}\"", escaped(column.help)),
                    escaped(column.name));
  }
  text += "</tr></thead>\n<tbody>\n";
  for (const std::vector<Cell>& row : rows) {
    text += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const Cell& cell = row[i];
      std::string classes = columns[i].is_text ? "text" : "";
      if (cell.best) classes += classes.empty() ? "best" : " best";
      text += "<td";
      if (!classes.empty()) text += fmt::format(" class=\"{}\"", classes);
      if (!cell.field.empty()) {
        text += fmt::format(" data-field=\"{}\" data-value=\"{}\"", escaped(cell.field),
                            escaped(cell.value));
      }
      text += ">" + (cell.html.empty() ? escaped(cell.text) : cell.html);
      if (!cell.beside.empty()) text += fmt::format(" <small>{}</small>", escaped(cell.beside));
      text += "</td>";
    }
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

std::string html_section(const std::string& id, const std::string& heading,
                         const std::string& about, const std::string& content) {
  return fmt::format("<section id=\"{}\"><h2>{}</h2>{}\n{}</section>\n", escaped(id),
                     escaped(heading),
                     about.empty() ? "" : fmt::format("<p>{}</p>", escaped(about)), content);
}

}  // namespace batchflow::sim
