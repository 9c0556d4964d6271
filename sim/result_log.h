// The results of a sweep as they come: a file of JSON lines that stays whatever ends the program.
//
// The first line names the study; each further line is the result of a run. A line that the end of
// the program cut short is dropped, and --resume makes what is missing. When all results are there,
// the file is written anew in the order of the runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "programs/output/results.h"

namespace batchflow::sim {

// A line of such a file.
std::string result_line(std::size_t run, const output::RunResult& result);
// Whether a result is kept. A run that was cut short, or crashed, is to be made again.
bool is_whole(const output::RunResult& result);

class ResultLog {
 public:
  struct Study {
    std::string name;
    std::string fingerprint;
    std::size_t runs;
  };
  // `resume`: goes on with what is there, if anything. Throws ConfigError when the file holds other
  // results, is in use, or cannot be written.
  ResultLog(std::string path, const Study& study, bool resume);
  ~ResultLog();
  ResultLog(const ResultLog&) = delete;
  ResultLog& operator=(const ResultLog&) = delete;

  // By index.
  const std::vector<std::optional<output::RunResult>>& results() const { return results_; }
  // The result is on the disk before this returns. Throws OutputError.
  void add(std::size_t index, const output::RunResult& result);
  // All results are there.
  void close();

 private:
  std::string header() const;
  void read();
  void read_line(const std::string& line, std::size_t number);
  void begin_anew();
  void write(const std::string& line);

  std::string path_;
  Study study_;
  int descriptor_ = -1;
  std::vector<std::optional<output::RunResult>> results_;
};

}  // namespace batchflow::sim
