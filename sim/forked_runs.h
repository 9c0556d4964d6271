// Runs in processes of their own, several at a time: a process can simulate once, and a run that
// crashes takes no other run with it. Sweeps and comparisons are made of such runs.
//
// A run answers with a text, and may report its progress meanwhile. Its process shares nothing with
// this one but what it was forked with. It ends without destructors, so that what this process has
// still to write is not written twice.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/simulate.h"

namespace batchflow::sim {

class ForkedRuns {
 public:
  // Called in the process of the run: reports its progress. False: the run is to end here, with the
  // results so far.
  using ReportProgress = std::function<bool(const RunProgress&)>;
  using Work = std::function<std::string(const ReportProgress& report)>;

  struct Outcome {
    bool done = false;      // it has answered `text`
    std::string text;       // what the work answered
    std::string problem;    // bad input, as its ConfigError says
    std::string unwritten;  // a result that could not be written, as its OutputError says
    std::string failure;    // anything else that ended it
  };

  using Finished = std::function<void(std::size_t work, Outcome& outcome)>;

  // Runs at most `at_once` processes at a time. `shown` is called now and then with the share of
  // all work that is done, the greatest simulated time, and the number of jobs that are over.
  // `finished` is called with each outcome as it comes, and may move from it (texts are large); if
  // it throws, all processes end with the call. After `goes_on` says no, or after an interrupt
  // (check_interrupted), all runs are told to end, and no further run begins. A process that has
  // sent nothing yet has no results, and is ended at once.
  static std::vector<Outcome> run(const std::vector<Work>& works, unsigned at_once,
                                  const std::function<void(const RunProgress&)>& shown,
                                  const Finished& finished = {},
                                  const std::function<bool()>& goes_on = {});
};

}  // namespace batchflow::sim
