// Jobs that the previous service served when it ended, as its promises say. Their loaders look for
// the next service, and report where they are. No loader can be behind what its job has trained on.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/types.h"
#include "core/order/position.h"
#include "runtime/service/log/promise_file.h"

namespace batchflow::service {

class Returning {
 public:
  // Takes the jobs that the file has when the service begins.
  explicit Returning(PromiseFile& file);

  // Why a job of that name cannot come back where it says it is; empty: it can. `user` as in
  // JobJoined.
  std::string objection(std::uint64_t user, const std::string& name,
                        const order::Position& reported) const;
  // A job of that name has begun here: what the previous service promised to the earlier job is
  // over.
  void begun(std::uint64_t user, const std::string& name);
  // From now on none of these jobs is waited for.
  void give_up();

  std::vector<std::string> names() const;
  // An id above those of all jobs that may come back.
  std::uint32_t next_job() const { return next_job_; }

 private:
  PromiseFile& file_;
  std::map<std::pair<std::uint64_t, std::string>, JobId> jobs_;
  std::uint32_t next_job_ = 0;
};

}  // namespace batchflow::service
