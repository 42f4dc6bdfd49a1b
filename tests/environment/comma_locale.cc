// Preloaded, gives a program the locale of the environment, in C and in C++, as a program with a user interface does.
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <locale>

namespace {

struct UseLocale {
  UseLocale() {
    std::setlocale(LC_ALL, "");
    std::locale::global(std::locale(""));
    if (std::strcmp(std::localeconv()->decimal_point, ",") == 0) return;
    std::fputs("the locale has no decimal comma\n", stderr);
    std::_Exit(2);
  }
};
const UseLocale use_locale;

}  // namespace
