// Prints the packages of a package-lock.json that have no sha512 integrity hash.
import { readFileSync } from 'node:fs';

const file = process.argv[2];
const { packages } = JSON.parse(readFileSync(file, 'utf8'));
for (const [name, entry] of Object.entries(packages)) {
  if (name !== '' && !entry.link && !entry.integrity?.startsWith('sha512-')) console.log(`${file}: ${name}`);
}
