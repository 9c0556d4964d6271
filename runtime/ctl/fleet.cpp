// Which node of a cluster is slower than the others, and where.
#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "runtime/ctl/answer.h"
#include "runtime/ctl/reasons.h"

namespace batchflow::ctl {
namespace {

using nlohmann::json;

// A node that is so many times slower than the others is named.
constexpr double kSlower = 2;
// What less was seen of says nothing.
constexpr double kBytesLeast = 8 << 20;
constexpr double kLinkBytesLeast = 1 << 20;
constexpr double kSamplesLeast = 200;
// What is only copied takes less, and that differs for many reasons.
constexpr double kPreparingLeast = 50e-6;

// What a node has done between two answers.
struct NodeWindow {
  std::string name;
  double read_bytes, store_busy_s, prepared, preparing_s, errors;
};

double change(const json& before, const json& now, const char* key) {
  return number(now, key) - number(before, key);
}

NodeWindow window(const std::string& name, const json& before, const json& now) {
  const auto gained = [&](const char* key) { return change(before, now, key); };
  // The coordinator has seconds, where agents have nanoseconds.
  const double preparing_s =
      now.contains("preparing_ns") ? gained("preparing_ns") / 1e9 : gained("preparing_s");
  return {
      name,        gained("read_bytes"), gained("store_busy_ns") / 1e9, gained("prepared_samples"),
      preparing_s, gained("read_errors")};
}

std::vector<NodeWindow> windows(const json& before, const json& now) {
  std::vector<NodeWindow> all = {window("the coordinator", before, now)};
  for (const json& one : list(now, "nodes")) {
    for (const json& earlier : list(before, "nodes")) {
      if (number(earlier, "node") == number(one, "node"))
        all.push_back(window(fmt::format("node '{}'", text(one, "name")), earlier, one));
    }
  }
  return all;
}

// The middle one. REQUIRES: there are some
double middle_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// What a thing takes on each node that has done enough of it.
using Cost = std::function<std::optional<double>(const NodeWindow&)>;
using Remark = std::function<std::string(const NodeWindow&, double cost, double of_others)>;

void compare(const std::vector<NodeWindow>& nodes, const Cost& cost, const Remark& remark,
             std::vector<std::string>& out) {
  for (const NodeWindow& node : nodes) {
    const std::optional<double> own = cost(node);
    if (!own) continue;
    std::vector<double> others;
    for (const NodeWindow& other : nodes) {
      if (&other == &node) continue;
      if (const std::optional<double> its = cost(other)) others.push_back(*its);
    }
    if (others.empty()) continue;
    if (const double middle = middle_of(others); *own > kSlower * middle)
      out.push_back(remark(node, *own, middle));
  }
}

// What a byte takes from one node to another.
struct LinkWindow {
  double asking, asked;  // nodes
  double s_a_byte;
};

void add_links(double asking, const json& before, const json& now, std::vector<LinkWindow>& out) {
  for (const json& one : list(now, "links")) {
    for (const json& earlier : list(before, "links")) {
      if (number(earlier, "node") != number(one, "node")) continue;
      const double bytes = change(earlier, one, "bytes");
      if (bytes < kLinkBytesLeast) continue;
      out.push_back({asking, number(one, "node"), change(earlier, one, "busy_ns") / 1e9 / bytes});
    }
  }
}

// If what goes to and from a node is slow, whatever the other side is, its own link is.
void compare_links(const json& before, const json& now, std::vector<std::string>& out) {
  std::vector<LinkWindow> links;
  add_links(0, before, now, links);
  std::vector<std::pair<double, std::string>> names = {{0, "the coordinator"}};
  for (const json& one : list(now, "nodes")) {
    names.emplace_back(number(one, "node"), fmt::format("node '{}'", text(one, "name")));
    for (const json& earlier : list(before, "nodes")) {
      if (number(earlier, "node") == number(one, "node"))
        add_links(number(one, "node"), earlier, one, links);
    }
  }
  for (const auto& [node, name] : names) {
    std::vector<double> own, others;
    for (const LinkWindow& link : links)
      (link.asking == node || link.asked == node ? own : others).push_back(link.s_a_byte);
    if (own.empty() || others.empty()) continue;
    const double cost = middle_of(own), of_others = middle_of(others);
    if (cost > kSlower * of_others)
      out.push_back(
          fmt::format("what goes to and from {} moves at {}/s, and between the others at {}/s: "
                      "look at its link",
                      name, bytes_text(1 / cost), bytes_text(1 / of_others)));
  }
}

}  // namespace

std::vector<std::string> fleet_remarks(const json& before, const json& now) {
  std::vector<std::string> out;
  if (list(now, "nodes").empty()) return out;
  const std::vector<NodeWindow> nodes = windows(before, now);
  compare(
      nodes,
      [](const NodeWindow& one) -> std::optional<double> {
        if (one.read_bytes < kBytesLeast || one.store_busy_s <= 0) return std::nullopt;
        return one.store_busy_s / one.read_bytes;
      },
      [](const NodeWindow& node, double cost, double of_others) {
        return fmt::format(
            "{} reads {}/s from the store while it reads, and the others {}/s: look at its drive, "
            "its mount, or its way to the store",
            node.name, bytes_text(1 / cost), bytes_text(1 / of_others));
      },
      out);
  compare_links(before, now, out);
  compare(
      nodes,
      [](const NodeWindow& one) -> std::optional<double> {
        if (one.prepared < kSamplesLeast) return std::nullopt;
        return std::max(kPreparingLeast, one.preparing_s / one.prepared);
      },
      [](const NodeWindow& node, double cost, double of_others) {
        return fmt::format(
            "{} takes {:.2f} ms to prepare a sample, and the others {:.2f}: look for other load on "
            "its cores, or for a lower clock",
            node.name, 1000 * cost, 1000 * of_others);
      },
      out);
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    if (nodes[i].errors > 0)
      out.push_back(fmt::format("{}: {:.0f} reads failed there; look at its drive or mount",
                                nodes[i].name, nodes[i].errors));
  }
  for (const json& one : list(now, "nodes")) {
    const bool was_there = std::any_of(
        list(before, "nodes").begin(), list(before, "nodes").end(),
        [&](const json& earlier) { return number(earlier, "node") == number(one, "node"); });
    if (was_there && !flag(one, "ready"))
      out.push_back(fmt::format("node '{}' still opens its datasets", text(one, "name")));
  }
  for (const json& earlier : list(before, "nodes")) {
    const bool is_there = std::any_of(
        list(now, "nodes").begin(), list(now, "nodes").end(),
        [&](const json& one) { return number(earlier, "node") == number(one, "node"); });
    if (!is_there)
      out.push_back(fmt::format("node '{}' was lost meanwhile", text(earlier, "name")));
  }
  return out;
}

}  // namespace batchflow::ctl
