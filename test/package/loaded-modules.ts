import { writeFileSync } from 'node:fs';
import { registerHooks } from 'node:module';

/** Loaded before a command (`--import`): writes the packages that it loaded, one a line, where `LOADED` says, at its end. */
const packages = new Set<string>();
registerHooks({
  load: (url, context, next) => {
    const [, name] = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url) ?? [];
    if (name !== undefined) packages.add(name);
    return next(url, context);
  },
});
process.on('exit', () => writeFileSync(process.env['LOADED'] ?? '', [...packages].join('\n')));
