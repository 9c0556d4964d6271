// Compiles pipelines that have plugins, without holding up anything else: a plugin takes as long to
// begin as it likes, within its bound.
//
// It lives on the service's thread; each compilation has a thread of its own.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/types.h"
#include "programs/config/config.h"
#include "runtime/prepare/pipeline.h"
#include "runtime/service/datasets/datasets.h"
#include "runtime/service/post.h"
#include "runtime/step/open_steps.h"

namespace batchflow::service {

class PipelineOpener {
 public:
  // Called on the service's thread with the pipeline, or with why there is none.
  using Done =
      std::function<void(std::unique_ptr<prepare::Pipeline> pipeline, const std::string& problem)>;
  using Then = std::function<void()>;

  explicit PipelineOpener(Post post) : post_(std::move(post)) {}
  ~PipelineOpener();  // waits for what is being compiled

  // A pipeline that is being compiled already is not begun again. `done` is called once, and then
  // the functions that wait for it.
  void open(const std::string& name, const ServedDataset& dataset, config::ConfigNode written,
            const step::StepSettings& settings, const memory::ScratchLimits& scratch, Done done);
  bool is_opening(const std::string& name, DatasetId dataset) const {
    return opening_.contains({name, dataset.value});
  }
  bool is_at(DatasetId dataset) const {
    return std::any_of(opening_.begin(), opening_.end(),
                       [&](const auto& one) { return one.first.second == dataset.value; });
  }
  // False: `waiter` waits for one already. REQUIRES: is_opening(name, dataset)
  bool wait(const std::string& name, DatasetId dataset, const void* waiter, Then then);
  void forget(const void* waiter);

 private:
  using Key = std::pair<std::string, std::uint32_t>;
  struct Opening {
    std::thread thread;
    Done done;
    std::vector<std::pair<const void*, Then>> waiting;
  };
  void opened(const Key& key, std::unique_ptr<prepare::Pipeline> pipeline,
              const std::string& problem);

  Post post_;
  std::map<Key, Opening> opening_;
  const std::shared_ptr<step::OpenSteps> steps_ = std::make_shared<step::OpenSteps>();
};

}  // namespace batchflow::service
