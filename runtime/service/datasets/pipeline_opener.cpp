#include "runtime/service/datasets/pipeline_opener.h"

#include <pthread.h>

#include <cerrno>
#include <exception>
#include <new>
#include <system_error>

#include "runtime/failpoint/failpoint.h"
#include "runtime/memory/out_of_memory.h"

namespace batchflow::service {

PipelineOpener::~PipelineOpener() {
  for (auto& [key, one] : opening_) {
    if (one.thread.joinable()) one.thread.join();
  }
}

void PipelineOpener::open(const std::string& name, const ServedDataset& dataset,
                          config::ConfigNode written, const step::StepSettings& settings,
                          const memory::ScratchLimits& scratch, Done done) {
  const Key key{name, dataset.id.value};
  const auto [at, is_new] = opening_.try_emplace(key);
  if (!is_new) return;
  at->second.done = std::move(done);
  step::StepSettings shared = settings;
  shared.open = steps_;
  const auto work = [this, key, written = std::move(written), index = dataset.index, shared,
                     scratch] {
    pthread_setname_np(pthread_self(), "bf-pipeline");
    // Shared, because what is posted is copied.
    const auto compiled = std::make_shared<std::unique_ptr<prepare::Pipeline>>();
    std::string problem;
    try {
      const memory::MayRunOutOfMemory scope;
      if (BF_FAILPOINT("service.pipeline.new")) throw std::bad_alloc();
      *compiled = prepare::compile_pipeline(written, *index, shared, scratch);
    } catch (const std::bad_alloc&) {
      problem = "the machine has no memory to set it up; ask again";
    } catch (const std::exception& error) {
      problem = error.what();
    }
    post_([this, key, compiled, problem] { opened(key, std::move(*compiled), problem); });
  };
  try {
    if (BF_FAILPOINT("service.pipeline.thread"))
      throw std::system_error(EAGAIN, std::generic_category());
    at->second.thread = std::thread(work);
  } catch (const std::system_error& error) {
    // Not before the caller that asks for it waits.
    const std::string problem = "no thread to set it up: " + error.code().message() + "; ask again";
    post_([this, key, problem] { opened(key, nullptr, problem); });
  }
}

void PipelineOpener::opened(const Key& key, std::unique_ptr<prepare::Pipeline> pipeline,
                            const std::string& problem) {
  Opening over = std::move(opening_.at(key));
  opening_.erase(key);
  if (over.thread.joinable()) over.thread.join();
  over.done(std::move(pipeline), problem);
  for (const auto& [waiter, then] : over.waiting) then();
}

bool PipelineOpener::wait(const std::string& name, DatasetId dataset, const void* waiter,
                          Then then) {
  for (const auto& [key, one] : opening_) {
    for (const auto& [other, its] : one.waiting)
      if (other == waiter) return false;
  }
  opening_.at({name, dataset.value}).waiting.emplace_back(waiter, std::move(then));
  return true;
}

void PipelineOpener::forget(const void* waiter) {
  for (auto& [key, one] : opening_)
    std::erase_if(one.waiting, [waiter](const auto& waiting) { return waiting.first == waiter; });
}

}  // namespace batchflow::service
