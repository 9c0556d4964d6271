#include "programs/input/recorded_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <tuple>

#include "core/base/config_value.h"

namespace batchflow::input {

namespace {

constexpr std::string_view kFormat = "# batchflow-scores ";
constexpr std::string_view kSamples = " samples ";
constexpr std::string_view kColumns = "epoch,key,score";
constexpr std::uint64_t kVersion = 1;
constexpr std::uint64_t kSamplesMost = 0xffff'fffe;  // as many as an engine can number

// Takes a number from the front of the text. False: there is none, or it is too large.
template <class Number>
bool take(std::string_view& text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool skip(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

// Reads the file line by line; a line takes no more memory than a right one needs.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    std::error_code error;
    // A pipe could be read only once, and a device would have no end.
    if (std::filesystem::is_regular_file(path, error)) file_.open(path, std::ios::binary);
    if (!file_.is_open())
      throw ConfigError(
          path +
          ": cannot be read; name a file that record_scores() of a Python loader has written");
  }

  // The number of samples that the file says.
  std::uint64_t head() {
    std::string_view text = line().value_or("");
    std::uint64_t version = 0;
    std::uint64_t samples = 0;
    if (!skip(text, kFormat) || !take(text, version))
      refuse("this is no recording of scores",
             "name a file that record_scores() of a Python loader has written");
    if (version != kVersion)
      refuse(fmt::format("version {} of the format, and {} is read here", version, kVersion),
             "record the scores again, or read them with the version that wrote them");
    if (!skip(text, kSamples) || !take(text, samples) || !text.empty() || samples == 0 ||
        samples > kSamplesMost)
      refuse("this does not say how many samples the dataset has",
             fmt::format("write '{}{}{}N', N from 1 to {}", kFormat, kVersion, kSamples,
                         kSamplesMost));
    if (line() != kColumns)
      refuse("not the names of the columns", fmt::format("write {}", kColumns));
    return samples;
  }

  // Calls `found` with each score that follows.
  template <class Found>
  void scores(std::uint64_t samples, const Found& found) {
    std::size_t count = 0;
    while (const auto read = line()) {
      std::string_view text = *read;
      std::uint32_t epoch = 0;
      std::uint64_t sample = 0;
      float value = 0;
      if (!take(text, epoch) || !skip(text, ",") || !take(text, sample) || !skip(text, ",") ||
          !take(text, value) || !text.empty() || !std::isfinite(value))
        refuse(fmt::format("not {}", kColumns), "write three numbers, as 0,17,2.5");
      if (sample >= samples)
        refuse(fmt::format("sample {} of a dataset of {}", sample, samples),
               fmt::format("write a key from 0 to {}", samples - 1));
      if (++count > RecordedScores::kScoresMost)
        refuse(fmt::format("more than {} scores", RecordedScores::kScoresMost),
               "leave out some epochs");
      found(static_cast<std::uint32_t>(sample), epoch, value);
    }
  }

 private:
  // The next line without its end, valid until the next call; none: the file is over.
  std::optional<std::string_view> line() {
    ++number_;
    file_.getline(line_.data(), line_.size());
    const auto read = static_cast<std::size_t>(file_.gcount());
    if (file_.bad()) refuse("cannot be read", "look whether its drive is well");
    if (file_.eof() && read == 0) return std::nullopt;
    if (file_.eof()) refuse("a last line without an end, which may be cut short", "remove it");
    if (file_.fail())
      refuse(fmt::format("a line of more than {} characters", read),
             "name a file that record_scores() of a Python loader has written");
    return std::string_view(line_.data(), read - 1);
  }

  [[noreturn]] void refuse(std::string_view wrong, std::string_view remedy) const {
    throw ConfigError(fmt::format("{}:{}: {}; {}", path_, number_, wrong, remedy));
  }

  const std::string& path_;
  std::ifstream file_;
  std::array<char, 128> line_{};
  std::size_t number_ = 0;
};

}  // namespace

std::uint64_t RecordedScores::check(const std::string& path) {
  Reader reader(path);
  const std::uint64_t samples = reader.head();
  reader.scores(samples, [](std::uint32_t, std::uint32_t, float) {});
  return samples;
}

RecordedScores::RecordedScores(const std::string& path) {
  Reader reader(path);
  reader.scores(reader.head(), [&](std::uint32_t sample, std::uint32_t epoch, float value) {
    scores_.push_back({sample, epoch, value});
  });
  const auto key = [](const Score& score) { return std::tie(score.sample, score.epoch); };
  // The last of equals comes first, and is the one that stays.
  std::reverse(scores_.begin(), scores_.end());
  std::stable_sort(scores_.begin(), scores_.end(),
                   [&](const Score& a, const Score& b) { return key(a) < key(b); });
  scores_.erase(std::unique(scores_.begin(), scores_.end(),
                            [&](const Score& a, const Score& b) { return key(a) == key(b); }),
                scores_.end());
  scores_.shrink_to_fit();
}

std::optional<float> RecordedScores::last(std::uint64_t sample, std::uint32_t epoch) const {
  const auto after = std::upper_bound(
      scores_.begin(), scores_.end(), std::pair<std::uint64_t, std::uint32_t>(sample, epoch),
      [](const auto& wanted, const Score& score) {
        return wanted < std::pair<std::uint64_t, std::uint32_t>(score.sample, score.epoch);
      });
  if (after == scores_.begin() || std::prev(after)->sample != sample) return std::nullopt;
  return std::prev(after)->value;
}

}  // namespace batchflow::input
