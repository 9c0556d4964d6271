#include "sim/report/html.h"

#include <fmt/format.h>

#include "programs/output/terminal.h"
#include "sim/report/style.h"

namespace batchflow::sim {

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
