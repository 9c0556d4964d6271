// Runs in processes of their own, several at a time: a process can simulate once, and a run that
// crashes takes no other with it. Sweeps and comparisons are made of these.
//
// A run answers with a text, and may say meanwhile how far it is. Its process shares nothing with
// this one but what it was forked with; it ends without destructors, so that what this process has
// still to write is not written twice.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/how_far.h"

namespace batchflow::sim {

class ForkedRuns {
 public:
  // In the run's process: how far it is. False: it is to end here, with what it has so far.
  using Tell = std::function<bool(const HowFar&)>;
  using Work = std::function<std::string(const Tell& tell)>;

  struct Outcome {
    bool done = false;
    std::string text;       // what the work answered
    std::string problem;    // bad input, as its ConfigError says
    std::string unwritten;  // a result that could not be written, as its OutputError says
    std::string failure;    // anything else that ended it
  };

  using Finished = std::function<void(std::size_t work, Outcome& outcome)>;

  // At most `at_once` processes at a time. `shown` is called now and then with the share of all
  // work that is done, the greatest simulated time, and the jobs that are over in all; `finished`
  // with each outcome as it comes, of which it may take what it likes (texts are large): if that
  // throws, all processes end with the call. After `goes_on`
  // says no, or an interrupt (check_interrupted) all runs are told to end, and those that have not
  // begun do not begin: a process that has told nothing yet has no results, and is ended where it
  // is.
  static std::vector<Outcome> run(const std::vector<Work>& works, unsigned at_once,
                                  const std::function<void(const HowFar&)>& shown,
                                  const Finished& finished = {},
                                  const std::function<bool()>& goes_on = {});
};

}  // namespace batchflow::sim
