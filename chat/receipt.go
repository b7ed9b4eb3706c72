package chat

// ReceiptPolicy says who may see who has read a message.
type ReceiptPolicy string

// The policies. REQUIRED is MEMBERS without the right to opt out.
const (
	ReceiptsSender   ReceiptPolicy = "SENDER"
	ReceiptsMembers  ReceiptPolicy = "MEMBERS"
	ReceiptsOff      ReceiptPolicy = "OFF"
	ReceiptsRequired ReceiptPolicy = "REQUIRED"
)

// Shows reports whether a member sees the receipt of a message. sent says that
// it is their own, shares that they share their own reads: not to share is mutual.
func (p ReceiptPolicy) Shows(sent, shares bool) bool {
	switch p {
	case ReceiptsRequired:
		return true
	case ReceiptsMembers:
		return shares
	case ReceiptsSender:
		return shares && sent
	}
	return false
}

// ReceiptDetail says whether a receipt names its readers.
type ReceiptDetail string

// DetailNames lists readers and pending, DetailCounts has exact numbers only.
const (
	DetailNames  ReceiptDetail = "NAMES"
	DetailCounts ReceiptDetail = "COUNTS"
)

// Detail is the detail of receipts in a conversation with so many members:
// names below the limit.
func Detail(members, namesBelow int32) ReceiptDetail {
	if members < namesBelow {
		return DetailNames
	}
	return DetailCounts
}

// Receipt says who has a message. The audience is whoever was a member when it
// was sent, without its sender and without those who do not share their reads.
type Receipt struct {
	// Message is what the receipt is of.
	Message   MessageKey
	Audience  int32
	ReadCount int32
	Detail    ReceiptDetail
}

// AllRead reports whether there is an audience and all of it has read.
func (r *Receipt) AllRead() bool { return r.Audience > 0 && r.ReadCount == r.Audience }

// Reader is one of a receipt's audience.
type Reader struct {
	User *User
	// LastReadAt is when the user's position in the conversation last moved; nil
	// for those who have not read the message.
	LastReadAt *DateTime
	// Member is false for one who has left since.
	Member bool
}

// InAudience reports whether a user with these periods, hidden ones included,
// was a member when the event at seq was appended.
func InAudience(periods []Period, seq Seq) bool {
	_, ok := periodAt(periods, seq)
	return ok
}

// HasRead reports whether a user of the audience counts as a reader of the
// message at seq. seen is their Position.Seen; in a hidden period what counts is
// how far they had seen when it was hidden: reading on after a return with
// SINCE_JOIN says nothing about what that hid.
func HasRead(periods []Period, seen, seq Seq) bool {
	p, ok := periodAt(periods, seq)
	if ok && p.Hidden {
		seen = p.SeenCap
	}
	return ok && seen >= seq
}

func periodAt(periods []Period, seq Seq) (Period, bool) {
	for _, p := range periods {
		if seq >= p.From && (p.To == 0 || seq <= p.To) {
			return p, true
		}
	}
	return Period{}, false
}
