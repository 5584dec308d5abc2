import sys
from pathlib import Path

# for the helper modules beside the tests
sys.path.insert(0, str(Path(__file__).parent))
