// The frame of a report: one HTML file that opens from disk, without a network, in light and dark,
// on a phone and on paper. It is XML too, so that programs can read it. All text from outside goes
// through `escaped`; figures stand in attributes as exactly as in the JSON (`data-value`).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "programs/output/terminal.h"

namespace batchflow::sim {

using output::escaped;

// `body` is HTML.
std::string html_page(const std::string& title, const std::string& body);

struct Cell {
  std::string text;         // for people; not escaped yet
  std::string field;        // its name in the JSON; empty: the cell is a text
  std::string value;        // the exact value
  std::string beside = {};  // shown after it, smaller
  bool best = false;        // of its column
  std::string html = {};    // instead of text
};
struct Column {
  std::string name;
  std::string help = {};
  bool is_text = false;  // aligned to the left
};
// The table scrolls sideways where it does not fit.
std::string html_table(const std::vector<Column>& columns,
                       const std::vector<std::vector<Cell>>& rows);

Cell text_cell(std::string text);
Cell figure_cell(std::string text, std::string field, double value);

// A heading that links can point to, and the content below it.
std::string html_section(const std::string& id, const std::string& heading,
                         const std::string& about, const std::string& content);

}  // namespace batchflow::sim
