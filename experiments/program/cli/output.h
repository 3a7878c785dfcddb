// How the program prints: colour, and how much. Every command has these options (CommandLine adds them), and they hold
// for the whole process. Set them before threads start, and call StyleLog (log.h) then.
#pragma once

namespace twofold {

enum class Colour { kAuto, kAlways, kNever };
// kAuto: on a terminal, unless the environment has NO_COLOR with any text, or TERM=dumb.
void UseColour(Colour colour);
bool ColourOnStdout();
bool ColourOnStderr();

// kQuiet: warnings and errors, but no progress and no remarks on stderr. kVerbose: notes with all of their text, and
// progress after every step.
enum class Verbosity { kQuiet, kNormal, kVerbose };
void UseVerbosity(Verbosity verbosity);
Verbosity HowVerbose();

}  // namespace twofold
