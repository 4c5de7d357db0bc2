// The origin of the code that a row runs.
#pragma once

#include <string>

namespace reprolab {

struct Origin {
  enum class Kind {
    project,   ///< This project.
    peer,      ///< A third-party library, loaded at run time.
    compiler,  ///< This project's source, compiled by another language's compiler.
    ceiling    ///< Not a family's kernel: a measurement of what the memory can do.
  };
  Kind kind = Kind::project;
  std::string maker{};  ///< Library or compiler, with its version; empty for this project.
};

}  // namespace reprolab
