#include "runtime/sources/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <unordered_map>

#include "core/base/check.h"
#include "runtime/sources/content_hash.h"
#include "runtime/sources/stored_index.h"

namespace batchflow::sources {
namespace {

// Keys in the whole dataset, in ascending order: consecutive ones, or a list.
class Keys {
 public:
  Keys(std::uint64_t first, std::uint64_t last) : first_(first), count_(last - first + 1) {}
  explicit Keys(std::vector<std::uint64_t> list) : count_(list.size()), list_(std::move(list)) {}
  std::uint64_t size() const { return count_; }
  std::uint64_t operator[](std::uint64_t index) const {
    return list_.empty() ? first_ + index : list_[index];
  }
  const std::vector<std::uint64_t>& list() const { return list_; }
  Bytes memory_bytes() const { return list_.capacity() * sizeof(std::uint64_t); }

 private:
  std::uint64_t first_ = 0;
  std::uint64_t count_ = 0;
  std::vector<std::uint64_t> list_;
};

class SplitIndex final : public SampleIndex {
 public:
  SplitIndex(std::shared_ptr<const SampleIndex> whole, std::string name, Digest version, Keys keys)
      : whole_(std::move(whole)),
        name_(std::move(name)),
        version_(version),
        keys_(std::move(keys)),
        classes_(whole_->classes()) {}

  // The folders below the split's folder become its classes. If there is a file beside them, the
  // split has no labels.
  void classify_below(std::size_t prefix) {
    classes_.clear();
    const auto below = [&](std::uint64_t key) {
      return whole_->path(whole_->extent(SampleId(key)).file).substr(prefix);
    };
    const std::vector<std::uint64_t>& keys = keys_.list();
    unlabelled_ = std::any_of(keys.begin(), keys.end(), [&](std::uint64_t key) {
      return below(key).find('/') == std::string_view::npos;
    });
    if (unlabelled_) return;
    const auto folder_of = [&](std::uint64_t key) {
      return below(key).substr(0, below(key).find('/'));
    };
    for (const std::uint64_t key : keys)
      if (classes_.empty() || classes_.back() != folder_of(key))
        classes_.emplace_back(folder_of(key));
    std::sort(classes_.begin(), classes_.end());
    classes_.erase(std::unique(classes_.begin(), classes_.end()), classes_.end());
    for (const std::uint64_t key : keys)
      labels_.push_back(static_cast<std::uint32_t>(
          std::lower_bound(classes_.begin(), classes_.end(), folder_of(key)) - classes_.begin()));
  }

  const std::string& name() const override { return name_; }
  Digest version() const override { return version_; }
  RecordKind kind() const override { return whole_->kind(); }
  std::uint64_t samples() const override { return keys_.size(); }
  const batch::BatchSpec& stored_fields() const override { return whole_->stored_fields(); }
  const std::vector<std::string>& classes() const override { return classes_; }
  Extent extent(SampleId sample) const override { return whole_->extent(key_in_whole(sample)); }
  std::optional<std::int64_t> label(SampleId sample) const override {
    if (unlabelled_) return std::nullopt;
    if (labels_.empty()) return whole_->label(key_in_whole(sample));
    BF_CHECK(sample.value < labels_.size());
    return labels_[sample.value];
  }
  std::string sample_name(SampleId sample) const override {
    return whole_->sample_name(key_in_whole(sample));
  }
  std::uint32_t files() const override { return whole_->files(); }
  std::string_view path(std::uint32_t file) const override { return whole_->path(file); }
  std::shared_ptr<const DataRoot> unpacked() const override { return whole_->unpacked(); }
  Bytes file_bytes(std::uint32_t file) const override { return whole_->file_bytes(file); }
  std::uint64_t file_mark(std::uint32_t file) const override { return whole_->file_mark(file); }
  std::optional<Bytes> uniform_bytes() const override { return whole_->uniform_bytes(); }
  bool is_dense() const override { return keys_.list().empty() && whole_->is_dense(); }
  Bytes memory_bytes() const override {
    return whole_->memory_bytes() + keys_.memory_bytes() + labels_.size() * sizeof labels_[0];
  }
  engine::Catalogue catalogue() const override { return StoredIndex::catalogue_of(*this); }
  std::vector<std::string> notes() const override { return whole_->notes(); }

 private:
  SampleId key_in_whole(SampleId sample) const {
    BF_CHECK(sample.value < keys_.size());
    return SampleId(keys_[sample.value]);
  }

  std::shared_ptr<const SampleIndex> whole_;
  std::string name_;
  Digest version_;
  Keys keys_;
  std::vector<std::string> classes_;
  std::vector<std::uint32_t> labels_;  // empty: they are those of the whole dataset
  bool unlabelled_ = false;
};

std::string folder_prefix(const SplitRule& rule) {
  std::string prefix = rule.folder;
  if (!prefix.empty() && prefix.back() != '/') prefix += '/';
  return prefix;
}

// The next line of a subset's file; false at its end. A line is a name, and no name is longer.
bool next_line(std::ifstream& file, const SplitRule& rule, int number, std::string& line) {
  std::array<char, 16 << 10> name;
  file.getline(name.data(), name.size());
  const auto got = static_cast<std::size_t>(file.gcount());
  if (file.fail() && got + 1 >= name.size())
    throw DatasetError(
        fmt::format("{}:{}: a line of {} characters or more; write names, one a line",
                    rule.subset.string(), number, got));
  if (file.fail()) return false;
  // The end of a line is counted, and not kept.
  line.assign(name.data(), file.eof() ? got : got - 1);
  return true;
}

// Marks the samples that a subset's file lists: a line is a name if there is one, else a key.
std::vector<bool> listed(const SampleIndex& whole, const SplitRule& rule, ContentHash& version) {
  std::error_code ignored;
  std::ifstream file;
  if (std::filesystem::is_regular_file(rule.subset, ignored)) file.open(rule.subset);
  if (!file.is_open())
    throw DatasetError(
        fmt::format("{}: cannot be read; write a file of names, one a line", rule.subset.string()));
  std::unordered_map<std::string, int> wanted;  // by name, the line; negative if it was found
  std::string line;
  for (int number = 1; next_line(file, rule, number, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    version.add(line);
    wanted.emplace(line, number);
    if (wanted.size() > whole.samples())
      throw DatasetError(fmt::format("{}:{}: more names than {} has samples, which is {}",
                                     rule.subset.string(), number, whole.name(), whole.samples()));
  }
  std::vector<bool> in(whole.samples());
  for (SampleId sample(0); sample.value < in.size(); ++sample.value) {
    const auto found = wanted.find(whole.sample_name(sample));
    if (found == wanted.end()) continue;
    in[sample.value] = true;
    found->second = -std::abs(found->second);
  }
  const std::pair<const std::string, int>* missing = nullptr;
  for (const auto& entry : wanted) {
    if (entry.second < 0) continue;
    const auto key = parse_unsigned(entry.first);
    if (key && *key < in.size()) {
      in[*key] = true;
    } else if (missing == nullptr || entry.second < missing->second) {
      missing = &entry;
    }
  }
  if (missing != nullptr)
    throw DatasetError(fmt::format(
        "{}:{}: no sample of {} is called '{}'; write names as "
        "`batchflowctl datasets` shows them, or keys below {}",
        rule.subset.string(), missing->second, whole.name(), missing->first, in.size()));
  return in;
}

std::vector<bool> chosen_classes(const SampleIndex& whole, const SplitRule& rule) {
  const auto& classes = whole.classes();
  std::vector<bool> in(classes.size());
  for (const std::string& name : rule.classes) {
    const auto found = std::find(classes.begin(), classes.end(), name);
    if (found == classes.end()) {
      const std::string nearest = nearest_name(name, {classes.begin(), classes.end()});
      throw DatasetError(fmt::format("{}: {} has no class '{}'; write {}", rule.source.text(),
                                     whole.name(), name,
                                     nearest.empty() ? "one of those it has" : nearest));
    }
    in[static_cast<std::size_t>(found - classes.begin())] = true;
  }
  return in;
}

bool in_range(const std::optional<SplitRule::Range>& range, std::uint64_t value) {
  return !range || (value >= range->first && value <= range->last);
}

// Whether the rule can be decided without a look at each sample.
bool is_range(const SampleIndex& whole, const SplitRule& rule) {
  return whole.uniform_bytes() && rule.folder.empty() && rule.subset.empty() &&
         rule.classes.empty() && !rule.fraction && in_range(rule.bytes, *whole.uniform_bytes());
}

// `FIRST-LAST`, each read by `parse`.
template <class Parse>
std::optional<SplitRule::Range> read_range(config::ConfigSection& section, std::string_view key,
                                           Parse parse, std::string_view example) {
  if (!section.has(key)) return std::nullopt;
  const std::string text = section.text(key, "");
  const std::size_t dash = text.find('-');
  const auto first = parse(std::string_view(text).substr(0, dash));
  const auto last = parse(dash == std::string::npos ? std::string_view("")
                                                    : std::string_view(text).substr(dash + 1));
  if (!first || !last || *first > *last)
    section.refuse(key, fmt::format("'{}' is not a range", text), example);
  return SplitRule::Range{*first, *last};
}

// All samples for which the rule holds. The lines of a subset's file become part of the version.
Keys chosen_keys(const SampleIndex& whole, const SplitRule& rule, ContentHash& version,
                 const SplitBounds& bounds) {
  const SplitRule::Range range = rule.keys.value_or(SplitRule::Range());
  const std::uint64_t end =
      range.last < whole.samples() ? range.last + 1 : whole.samples();  // behind the last
  if (range.first < end && is_range(whole, rule)) return Keys(range.first, end - 1);
  const std::string prefix = folder_prefix(rule);
  std::vector<bool> in_subset;
  if (!rule.subset.empty()) in_subset = listed(whole, rule, version);
  const std::vector<bool> in_classes = chosen_classes(whole, rule);
  const std::uint64_t below = rule.fraction ? rule.fraction->share_of(UINT64_MAX) : 0;
  StopCheck check(bounds.stop);
  std::vector<std::uint64_t> keys;
  for (std::uint64_t key = range.first; key < end; ++key) {
    check();
    const SampleId sample(key);
    if (!in_subset.empty() && !in_subset[key]) continue;
    const Extent extent = whole.extent(sample);
    if (!in_range(rule.bytes, extent.bytes)) continue;
    if (!prefix.empty() && !whole.path(extent.file).starts_with(prefix)) continue;
    if (!rule.classes.empty()) {
      const std::int64_t label = whole.label(sample).value_or(-1);
      if (label < 0 || static_cast<std::uint64_t>(label) >= in_classes.size() ||
          !in_classes[static_cast<std::size_t>(label)])
        continue;
    }
    if (rule.fraction) {
      ContentHash of_name;
      of_name.add(whole.sample_name(sample));
      if ((of_name.digest() < below) == rule.rest) continue;
    }
    keys.push_back(key);
    if (bounds.memory_most > 0 && keys.size() * sizeof key > bounds.memory_most)
      throw DatasetError(fmt::format(
          "{}: the list of a split's samples takes more than the {} MiB that one named by a job "
          "may; give the service more memory (--memory), or write the split as keys=FIRST-LAST",
          whole.name(), bounds.memory_most >> 20));
  }
  return Keys(std::move(keys));
}

}  // namespace

SplitRule read_split_rule(config::ConfigSection& section) {
  SplitRule rule;
  rule.source = section.source();
  rule.folder = section.filled_text("folder", "", "write a folder of the dataset");
  rule.subset = section.filled_text("subset", "", "write a file of names, one a line");
  if (rule.subset.is_relative() && !rule.subset.empty() && rule.source.file)
    rule.subset = std::filesystem::path(*rule.source.file).parent_path() / rule.subset;
  rule.keys = read_range(section, "keys", parse_unsigned, "write 0-49999");
  rule.bytes = read_range(section, "bytes", parse_bytes, "write 1kb-1mb");
  if (section.has("fraction")) rule.fraction = section.ratio("fraction", {});
  if (section.has("part") && !rule.fraction)
    section.refuse("part", "it needs a fraction", "write fraction: 0.9, too");
  rule.rest = section.one_of("part", {"first", "rest"}, 0) == 1;
  rule.classes = section.texts("classes");
  return rule;
}

std::unique_ptr<SampleIndex> make_split(std::shared_ptr<const SampleIndex> whole,
                                        const SplitRule& rule, std::string name,
                                        const SplitBounds& bounds) {
  const std::string prefix = folder_prefix(rule);
  ContentHash version;
  version.add(whole->version());
  version.add(prefix);
  for (const auto& range : {rule.keys, rule.bytes}) {
    version.add(std::uint64_t{range.has_value()});
    if (range) version.add(range->first);
    if (range) version.add(range->last);
  }
  version.add(rule.fraction ? rule.fraction->parts + 1 : 0);
  version.add(std::uint64_t{rule.rest});
  for (const std::string& wanted : rule.classes) version.add(wanted);

  Keys keys = chosen_keys(*whole, rule, version, bounds);
  if (keys.size() == 0)
    throw DatasetError(fmt::format("{}: no sample of {} is in split '{}'; write a wider rule",
                                   rule.source.text(), whole->name(), name));
  const bool classify =
      !prefix.empty() && whole->kind() == RecordKind::whole && !whole->classes().empty();
  auto split = std::make_unique<SplitIndex>(std::move(whole), std::move(name), version.digest(),
                                            std::move(keys));
  if (classify) split->classify_below(prefix.size());
  return split;
}

}  // namespace batchflow::sources
