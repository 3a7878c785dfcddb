# cmake -DSOURCE=... -DHEADER=... -P commit.cmake: writes HEADER with the commit of the checkout SOURCE, if it is not in it already.
execute_process(COMMAND git describe --always --dirty --abbrev=12 --exclude=* WORKING_DIRECTORY ${SOURCE}
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "unknown")  # an archive without its history, or no git
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define TWOFOLD_COMMIT \"${commit}\"\n")
