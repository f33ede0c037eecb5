import { systemClock } from '../../src/observe/system-clock.ts';
import { openWarehouse } from '../../src/database/databases.ts';
import { loadOnce } from '../support/content-loader.ts';

/** Loads one record into `content` of the warehouse named first, and says when it begins. */
const [address = '', text = ''] = process.argv.slice(2);
const warehouse = await openWarehouse(address, systemClock);
console.log('begins');
await loadOnce(warehouse, [text]);
await warehouse.close();
