// Scores that a training recorded (`record_scores` of the Python loader), by sample and epoch.
//
// The file is text, a line for each score in the order in which they were reported:
//
//   # batchflow-scores 1 samples 1200
//   epoch,key,score
//   0,17,2.30258512
//
// 1 is the version of the format. The number at the end is that of the dataset's samples. Of
// several scores of a sample in an epoch the last line counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace batchflow::input {

class RecordedScores {
 public:
  // A file may have this many scores: each takes 12 bytes of memory.
  static constexpr std::size_t kScoresMost = std::size_t{1} << 26;

  // Throws ConfigError with file and line.
  explicit RecordedScores(const std::string& path);
  // How many samples the dataset of the record has. Checks the whole file and keeps nothing of it.
  static std::uint64_t check(const std::string& path);

  // The sample's last score by the end of the epoch; none: it had no score yet.
  std::optional<float> last(std::uint64_t sample, std::uint32_t epoch) const;

 private:
  struct Score {
    std::uint32_t sample;
    std::uint32_t epoch;
    float value;
  };
  std::vector<Score> scores_;  // by sample and epoch, one of each
};

}  // namespace batchflow::input
