import { askForPages } from './rotating-pages.ts';

/** A process that asks a service for pages; prints what came of it. */
const [address = '', service = '', forMs = '0'] = process.argv.slice(2);
process.stdout.write(`${await askForPages(address, service, Number(forMs))}\n`);
