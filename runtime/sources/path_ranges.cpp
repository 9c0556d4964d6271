#include "runtime/sources/path_ranges.h"

#include <fmt/format.h>

namespace batchflow::sources {
namespace {

std::string_view path_of(const SampleIndex& index, std::uint64_t sample) {
  return index.path(index.extent(SampleId(sample)).file);
}

// The first sample of which the path is not before `path`, by its bytes; or not before nor below.
std::uint64_t first_from(const SampleIndex& index, std::string_view path, bool behind) {
  std::uint64_t first = 0;
  for (std::uint64_t end = index.samples(); first < end;) {
    const std::uint64_t middle = first + (end - first) / 2;
    const std::string_view there = path_of(index, middle);
    const bool before = there < path || (behind && there.substr(0, path.size()) == path);
    if (before) {
      first = middle + 1;
    } else {
      end = middle;
    }
  }
  return first;
}

std::string_view first_name(std::string_view path) {
  return path.substr(0, path.find('/'));
}

}  // namespace

SampleRange samples_at(const SampleIndex& index, std::string_view path) {
  const std::uint64_t file = first_from(index, path, false);
  if (file < index.samples() && path_of(index, file) == path) {
    const std::string next = std::string(path) + '\0';  // the least text behind it
    return {SampleId(file), first_from(index, next, false) - file};
  }
  const std::string folder = std::string(path) + '/';
  const std::uint64_t first = first_from(index, folder, false);
  return {SampleId(first), first_from(index, folder, true) - first};
}

std::string names_at_root(const SampleIndex& index, std::size_t most) {
  std::string names;
  std::uint64_t at = 0;
  for (std::size_t count = 0; at < index.samples(); ++count) {
    if (count == most) return names + ", ...";
    const std::string name(first_name(path_of(index, at)));
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
    const SampleRange range = samples_at(index, name);
    at = range.samples > 0 ? range.first.value + range.samples : at + 1;
  }
  return names;
}

}  // namespace batchflow::sources
