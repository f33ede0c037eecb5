import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The folder of this package, which holds `config/`; found from `src/` as well as from `dist/src/`. */
export function packageRoot(from = import.meta.dirname): string {
  if (existsSync(join(from, 'package.json'))) return from;
  const above = dirname(from);
  if (above === from) throw new Error('package.json of content-sync not found above its own code');
  return packageRoot(above);
}
