"""Write the options page to standard output."""

import sys

from tidelake.config.document import options_page

sys.stdout.write(options_page())
