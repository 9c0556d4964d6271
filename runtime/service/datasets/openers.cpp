#include "runtime/service/datasets/openers.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "runtime/failpoint/failpoint.h"

namespace batchflow::service {

Openers::Openers(Post post) : shared_(std::make_shared<Shared>()) {
  shared_->post = std::move(post);
}

Openers::~Openers() {
  for (auto& [number, opener] : openers_) *opener.stops = true;
  std::unique_lock lock(shared_->mutex);
  shared_->post = nullptr;
  const bool all = shared_->changed.wait_for(lock, kEndWithin, [&] { return shared_->left == 0; });
  lock.unlock();
  for (auto& [number, opener] : openers_) {
    if (!opener.thread.joinable()) continue;
    if (all) {
      opener.thread.join();
    } else {
      opener.thread.detach();
    }
  }
}

void Openers::start(std::uint64_t number, std::optional<uid_t> user, Work work) {
  auto stops = std::make_shared<std::atomic<bool>>(false);
  const auto over = [this, number] {
    const auto opener = openers_.extract(number);
    if (opener && opener.mapped().thread.joinable()) opener.mapped().thread.join();
  };
  {
    const std::lock_guard lock(shared_->mutex);
    ++shared_->left;
  }
  try {
    if (BF_FAILPOINT("service.dataset.thread"))
      throw std::system_error(EAGAIN, std::generic_category());
    openers_[number] = {std::thread([shared = shared_, stops, over, work = std::move(work)] {
                          pthread_setname_np(pthread_self(), "bf-open");
                          auto then = work([stops] { return stops->load(); });
                          const std::lock_guard lock(shared->mutex);
                          if (shared->post) {
                            shared->post([over, then = std::move(then)] {
                              over();
                              then();
                            });
                          }
                          --shared->left;
                          shared->changed.notify_all();
                        }),
                        user, stops};
  } catch (const std::system_error& error) {
    openers_.erase(number);
    const std::lock_guard lock(shared_->mutex);
    --shared_->left;
    throw std::runtime_error("no thread to open it: " + error.code().message() + "; ask again");
  }
}

void Openers::stop(std::uint64_t number) {
  if (const auto found = openers_.find(number); found != openers_.end())
    *found->second.stops = true;
}

std::size_t Openers::running() const {
  return static_cast<std::size_t>(
      std::count_if(openers_.begin(), openers_.end(),
                    [](const auto& one) { return one.second.user.has_value(); }));
}

std::size_t Openers::running(uid_t user) const {
  return static_cast<std::size_t>(std::count_if(
      openers_.begin(), openers_.end(), [&](const auto& one) { return one.second.user == user; }));
}

}  // namespace batchflow::service
