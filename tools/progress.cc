#include "tools/progress.h"

#include <unistd.h>

#include <chrono>
#include <iostream>
#include <utility>

namespace plan::tools {

Progress::Progress(std::string what) : what_(std::move(what)) {
  if (::isatty(STDERR_FILENO) == 1) thread_ = std::thread([this] { show(); });
}

Progress::~Progress() { done(); }

void Progress::done() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void Progress::show() {
  std::unique_lock lock(mutex_);
  int seconds = 0;
  while (!ended_.wait_for(lock, std::chrono::seconds(1), [this] { return end_; })) {
    std::cerr << "\r" << what_ << " ... " << ++seconds << " s" << std::flush;
  }
  if (seconds > 0) std::cerr << "\r\x1b[K" << std::flush;
}

}  // namespace plan::tools
