import * as fc from 'fast-check';

/** `npm test` draws the same cases on every machine, so that it never fails by chance; the soak draws fresh ones. */
process.env['SEED'] ??= '20261120';
fc.configureGlobal({ seed: Number(process.env['SEED']) });
