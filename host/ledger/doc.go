// Package ledger is host.Billing for a deployment that keeps its own books:
// wallets, holds and an append-only usage record in one SQLite file.
//
// It is not a payment system: it knows whole cents that somebody credited, no
// currencies, invoices or taxes. It is not shared between machines either;
// processes of one machine may open the same file at the same time.
//
// # Life of a charge
//
// Reserve writes a hold. Started turns the hold into a debt under the run id.
// Debit, in one transaction, records the usage, takes the money and removes the
// hold. Release removes a hold whose act never started.
//
// A hold that never started expires (Options.HoldTTL), so a lost charge does
// not keep money for ever. A debt does not expire: if its process dies, the
// next Open debits it once with the outcome "lost". Which processes live is
// told by file locks in the directory PATH-owners, which the kernel drops with
// the process; clocks play no part in it.
//
// Charges without a payer or price are recorded like all others, with 0 cents.
// They cost no transaction before Started or Debit.
//
// # Durability
//
// What was acknowledged by Credit, SetCap or Debit survives a power failure.
// Holds and the fact of having started survive the death of the process but,
// after a power failure, the last ones may be missing: the run died as well.
package ledger
