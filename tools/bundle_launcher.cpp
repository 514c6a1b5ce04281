// SPDX-License-Identifier: Apache-2.0
// Stands for each program in a bundle's bin/ and starts the one of the same name in programs/. That one finds
// its libraries in ../lib of its own folder, which the C library learns from /proc; where there is no /proc
// (a bare chroot) this launcher, which is static, says it by LD_LIBRARY_PATH.

#include <sys/auxv.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

int main(int, char** argv, char**) {
  const std::string self = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  const std::size_t slash = self.rfind('/');
  const std::string root = (slash == std::string::npos ? "." : self.substr(0, slash)) + "/..";
  const std::string program = root + "/programs/" + self.substr(slash + 1);
  if (access("/proc/self/exe", R_OK) != 0) {
    setenv("LD_LIBRARY_PATH", (root + "/lib").c_str(), 1);
  }
  execv(program.c_str(), argv);
  std::perror(program.c_str());
  return 127;
}
