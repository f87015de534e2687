// One line on stderr that says what takes so long: only on a terminal, only after a second.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace plan::tools {

// Shows "what ... 3 s" until done() or its end of life, which wipe the line.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // To be called before anything is printed.
  void done();

 private:
  void show();

  std::string what_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace plan::tools
